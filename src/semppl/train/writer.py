"""All that a run writes while it trains, by one thread and in order, so that no step waits for a disk.

A disk that is full or gone stops the thread, not the run, and nothing is dropped: what could not be written
is tried again until it can.
"""

import atexit
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

import torch
from torch import Tensor

from semppl.core.errors import RunError
from semppl.core.lock import lost
from semppl.core.rundir import RunDirectory
from semppl.train.checkpoint import NO_ROOM, Say, checkpoint_path, keep_checkpoint

_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True)
class _Job:
    path: Path
    write: Callable[[], object]
    size: int | None = None
    """Bytes of a checkpoint; None for a line of metrics."""


@final
class Writer:
    """`with Writer(run, keep=3, say=console.print) as writer`: waits at the end until all is on the disk.

    After an exception in the block each thing is tried once more, and `say` hears what could not be written.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        keep: int,
        say: Say,
        retry: float = 5.0,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._run, self._keep, self._say, self._retry = run, keep, say, retry
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._give_up, self._ended = threading.Event(), threading.Event()
        self._sleep = sleep or self._give_up.wait
        self._closed, self._told = False, False
        self._stuck: str | None = None
        self._error: BaseException | None = None
        self._unwritten: list[Path] = []
        # a daemon, so that an interpreter which ends without `close` gets as far as `atexit`
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()
        atexit.register(self.close, give_up=True)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self.close(give_up=error is not None):
            self._say(f"{path} could not be written")

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is waiting or being written: its state still takes memory."""
        with self._changed:
            return any(job.size is not None for job in self._jobs)

    @property
    def stuck(self) -> str | None:
        """What is wrong, while nothing can be written."""
        return self._stuck

    def row(self, row: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl."""
        self._put(_Job(self._run.metrics, partial(self._run.append_metrics, dict(row))))

    def checkpoint(self, state: dict[str, Any], facts: dict[str, Any]) -> None:
        """A checkpoint of tensors that nobody changes any more, wherever they are; drops old ones after it.

        Returns at once: who would not hold two states in memory looks at `busy` first.
        """
        departing, known = Departing(state), dict(facts)
        self._put(
            _Job(
                checkpoint_path(self._run, state["step"]),
                lambda: keep_checkpoint(self._run, departing.on_cpu(), known, keep=self._keep),
                departing.size,
            )
        )

    def close(self, *, give_up: bool = False) -> list[Path]:
        """Finish, and stop the thread; with `give_up` what cannot be written now is dropped, and named."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if give_up:
            self._give_up.set()
        # a `join` that Ctrl-C breaks off takes the thread for ended, and a wait without end may sleep through
        # a signal that comes just before it
        while not self._ended.wait(0.1):
            pass
        self._thread.join()
        atexit.unregister(self.close)
        if not self._told:
            self._raise_error()
        return self._unwritten

    def _put(self, job: _Job) -> None:
        with self._changed:
            self._raise_error()
            if self._closed:
                raise ValueError("the writer is closed")
            self._jobs.append(job)
            self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            self._told = True
            raise self._error

    def _work(self) -> None:
        try:
            while self._first():
                self._finish(self._jobs[0])
                with self._changed:
                    self._jobs.popleft()
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - the next caller gets it
            with self._changed:
                self._error = error
                self._jobs.clear()
                self._changed.notify_all()
        finally:
            self._ended.set()

    def _first(self) -> bool:
        """Whether there is one; False when there will be no more. It stays in line until it is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            return bool(self._jobs)

    def _finish(self, job: _Job) -> None:
        """Until it is written, or given up."""
        while True:
            last = self._give_up.is_set()
            if lost(self._run.path):
                raise RunError(
                    f"{self._run.path} was removed, or another run has taken its place: nothing is written "
                    "there any more, and the run ends"
                )
            try:
                job.write()
            except OSError as error:
                if last:
                    self._unwritten.append(job.path)
                    break
                if self._stuck is None:
                    self._stuck = _problem(job, error)
                    self._say(f"{self._stuck}; tried again every {self._retry:g} s, nothing is lost")
                self._sleep(self._retry)
            else:
                if self._stuck is not None:
                    self._say(f"{job.path} is written: going on")
                break
        self._stuck = None


def _problem(job: _Job, error: OSError) -> str:
    words = f"cannot write {job.path} ({error.strerror or error})"
    if error.errno not in NO_ROOM:
        return words
    room = f"make room for {(job.size or 0) // _MEGABYTE + 1:,} MB in {job.path.parent}"
    try:
        return f"{words}: {room}, which has {shutil.disk_usage(job.path.parent).free // _MEGABYTE:,} MB"
    except OSError:
        return f"{words}: {room}"


@final
class Departing:
    """A state on its way to the disk.

    What is on a GPU is fetched on a stream beside that of the steps, as soon as it is computed; what is on
    the CPU is not copied.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state
        tensors = list(_tensors(state))
        self.size = sum(tensor.nbytes for tensor in tensors)
        away = {tensor.device for tensor in tensors if tensor.device.type != "cpu"}
        self._ready = {device: _now_on(device) for device in away}

    def on_cpu(self) -> dict[str, Any]:
        """The same on the CPU; the device gets its memory back."""
        for device, ready in self._ready.items():
            with _stream_after(device, ready):
                self._state = _fetched(self._state, device)
        self._ready = {}
        return self._state


def _now_on(device: torch.device) -> torch.cuda.Event | None:
    return torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all: streams come from a pool, and a later one might be that of the steps."""
    return torch.cuda.Stream(device)


@contextmanager
def _stream_after(device: torch.device, ready: torch.cuda.Event | None) -> Iterator[None]:
    if ready is None:
        yield
        return
    stream = _stream(device)
    stream.wait_event(ready)
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _fetched(value: Any, device: torch.device) -> Any:
    """With the tensors of a device on the CPU."""
    if isinstance(value, Tensor):
        return value.to("cpu") if value.device == device else value
    if isinstance(value, dict):
        return {key: _fetched(each, device) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_fetched(each, device) for each in value)
    return value
