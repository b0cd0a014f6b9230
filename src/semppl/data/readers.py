"""Processes that read images ahead of the step that needs them; one that dies is replaced.

torch's DataLoader ends a run when a worker dies, and from a signal handler: wherever the main thread is just
then. Its workers also share a queue, and one that is killed may take the queue's lock along. Here each
process has a pipe of its own and writes into memory that was made before, so it may die at any moment:
nothing that it had finished is lost, and what it had not is read again.

Shapes: W processes, R rows that are read together.
"""

import gc
import multiprocessing
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.counted import counted
from semppl.core.errors import RunError

Read = Callable[[int, int, int], tuple[Sequence[Tensor], str]]
"""Step, row and image → the tensors of that row, always of one shape, and what went wrong; picklable."""
Made = tuple[list[Tensor], list[str]]
"""The tensors of several rows [R,…], and what went wrong."""

# in one step this is no chance any more
_TOO_MANY_DEATHS: Final = 5
_NO_IMAGE: Final = -1
_WATCH: Final = 1.0
"""Seconds after which an idle process sees that its parent is gone."""
_GRACE: Final = 5.0
"""Seconds that a dying process is waited for."""
_NAMED: Final = 5
"""Files in a line."""
_SHORT: Final = {"SIGKILL": "memory", "SIGBUS": "shared memory"}
"""What a process that ends so has mostly had too little of."""


class Part(NamedTuple):
    """Consecutive rows of the batch of a step, from `first` on."""

    step: int
    first: int
    images: list[int]


def read_here(read: Read, parts: Iterator[Part]) -> Iterator[Made]:
    """The same as `Readers` give, in this process and not ahead."""
    for part in parts:
        rows, problems = _rows(read, part, np.zeros((), np.int64))
        yield [torch.stack(row) for row in zip(*rows, strict=True)], problems


@final
class Readers(Iterator[Made]):
    """Parts in their order, made by `workers` processes; `like` are the tensors of any one row.

    What `next` gives is overwritten after the next `next`. A death adds a line to `incidents` and changes
    nothing else, unless the same image kills twice or a step has too many: then, and when nothing has come
    for `patience` seconds, there is a RunError with the file. `name` tells how an image's file is called.
    """

    def __init__(
        self,
        read: Read,
        parts: Iterator[Part],
        like: Sequence[Tensor],
        *,
        rows: int,
        workers: int,
        patience: float,
        name: Callable[[int], str],
        incidents: list[str],
    ) -> None:
        self._parts, self._patience, self._name, self._incidents = parts, patience, name, incidents
        # twice as many parts as processes are on their way, and the caller holds one
        slots = [row.new_empty((2 * workers + 1, rows, *row.shape)) for row in like]
        self._notes_W, *self._slots = _shared([torch.full((workers,), _NO_IMAGE), *slots], workers)
        self._read, self._step, self._deaths, self._given = read, -1, 0, 0
        self._errands: deque[_Errand] = deque()
        # a process died of these, and nobody has read them since
        self._fatal: set[int] = set()
        self._readers: list[_Reader] = []
        # also when nobody closes: the processes are deaf to the SIGTERM that Python sends them at its end
        self._end = Finalize(self, _dismiss, args=(self._readers,), exitpriority=1)
        self._readers.extend(self._start(worker) for worker in range(workers))
        for _ in range(2 * workers):
            self._hand_out_()

    def __next__(self) -> Made:
        self._hand_out_()
        errand = self._errands.popleft()
        if errand.part.step != self._step:
            self._step, self._deaths = errand.part.step, 0
        self._listen_(0.0)
        while errand.answer is None:
            if not self._listen_(self._patience):
                raise RunError(self._nothing_comes())
        if errand.answer.failure:
            raise RuntimeError(f"in a reader process\n{errand.answer.failure}")
        filled = slice(len(errand.part.images))
        return [slots[errand.slot, filled] for slots in self._slots], errand.answer.problems

    def close(self) -> None:
        """End the processes."""
        self._end()

    def _hand_out_(self) -> None:
        errand = _Errand(self._given % (2 * len(self._readers) + 1), next(self._parts))
        self._given += 1
        self._errands.append(errand)
        min(self._readers, key=lambda reader: len(reader.errands)).take_(errand)

    def _listen_(self, patience: float) -> bool:
        """Whether anything was heard."""
        ready = wait([reader.pipe for reader in self._readers], patience)
        for worker, reader in enumerate(self._readers):
            if reader.pipe not in ready:
                continue
            try:
                answer = reader.pipe.recv()
            except (EOFError, OSError):
                self._replace_(worker)
            else:
                errand = reader.errands.popleft()
                errand.answer = answer
                self._fatal.difference_update(errand.part.images)
        return bool(ready)

    def _replace_(self, worker: int) -> None:
        dead, image = self._readers[worker], int(self._notes_W[worker])
        dead.bury_()
        self._deaths += 1
        if image in self._fatal or self._deaths >= _TOO_MANY_DEATHS:
            raise RunError(self._last_words(dead, image))
        self._fatal |= {image} - {_NO_IMAGE}
        self._incidents.append(f"a reader process died {self._doing(image)} ({dead.cause}): replaced")
        self._notes_W[worker] = _NO_IMAGE
        self._readers[worker] = self._start(worker)
        for errand in dead.errands:
            self._readers[worker].take_(errand)

    def _start(self, worker: int) -> "_Reader":
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(
            target=_serve,
            args=(theirs, self._read, self._slots, self._notes_W[worker], os.getpid()),
            daemon=True,
        )
        try:
            process.start()
        except OSError as error:
            raise RunError(f"cannot start a reader process ({error.strerror}): lower --workers") from error
        # no process that is started later may hold this end: that it closes tells of a death
        theirs.close()
        return _Reader(process, ours)

    def _doing(self, image: int) -> str:
        return "between two images" if image == _NO_IMAGE else f"while reading {self._name(image)}"

    def _last_words(self, dead: "_Reader", image: int) -> str:
        again = image in self._fatal
        who = "two reader processes" if again else f"{self._deaths} reader processes in step {self._step}"
        last = "" if again else ", the last one"
        remedies = [
            f"{what} may be short, so lower --workers"
            for name, what in _SHORT.items()
            if getattr(signal, name, None) == dead.signum
        ]
        if image != _NO_IMAGE:
            remedies.append("remove or replace the file")
        remedy = ", or else ".join(remedies) or "lower --workers"
        return f"{who} died{last} {self._doing(image)} ({dead.cause}): {remedy}; then go on with --resume"

    def _nothing_comes(self) -> str:
        images = sorted(set(self._notes_W.tolist()) - {_NO_IMAGE})
        names = ", ".join(self._name(image) for image in images[:_NAMED]) or "nothing"
        more = f" and {len(images) - _NAMED} more" if len(images) > _NAMED else ""
        return (
            f"no image has come for {self._patience:g} s; being read: {names}{more}: "
            "see whether these files can be read, then go on with --resume"
        )


class _Answer(NamedTuple):
    problems: list[str]
    failure: str = ""


@final
@dataclass(eq=False)
class _Errand:
    slot: int
    part: Part
    answer: _Answer | None = None


@final
@dataclass(eq=False)
class _Reader:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    errands: deque[_Errand] = field(default_factory=deque)
    """In the order of their answers."""

    def take_(self, errand: _Errand) -> None:
        self.errands.append(errand)
        with suppress(OSError):  # it is dead: `recv` will tell
            self.pipe.send((errand.slot, errand.part))

    def bury_(self) -> None:
        self.process.join(_GRACE)
        self.process.kill()
        self.pipe.close()

    @property
    def signum(self) -> int:
        return -(self.process.exitcode or 0)

    @property
    def cause(self) -> str:
        return f"killed by signal {self.signum}" if self.signum > 0 else f"exit status {-self.signum}"


def _dismiss(readers: list[_Reader]) -> None:
    for reader in readers:
        reader.process.kill()
    deadline = time.monotonic() + _GRACE
    for reader in readers:
        reader.process.join(max(0.0, deadline - time.monotonic()))
        reader.pipe.close()
    readers.clear()


def _shared(tensors: list[Tensor], workers: int) -> list[Tensor]:
    """All memory is taken at once: what is missing is missed here, and not by a process that writes there."""
    try:
        return [tensor.share_memory_() for tensor in tensors]
    except RuntimeError as error:
        need = sum(tensor.nbytes for tensor in tensors) / 2**20
        readers = counted(workers, "reader process needs", "reader processes need")
        raise RunError(
            f"{readers} {need:.1f} MB of shared memory, and there is less: "
            "lower --workers, or enlarge /dev/shm"
        ) from error


def _rows(read: Read, part: Part, note: NDArray[np.int64]) -> tuple[list[Sequence[Tensor]], list[str]]:
    """`note` is a number: the image that is being read."""
    rows, problems = list[Sequence[Tensor]](), list[str]()
    for row, image in enumerate(part.images, start=part.first):
        note[...] = image
        tensors, problem = read(part.step, row, image)
        rows.append(tensors)
        problems += [problem] if problem else []
    note[...] = _NO_IMAGE
    return rows, problems


def _serve(pipe: "Connection[Any, Any]", read: Read, slots: list[Tensor], note: Tensor, parent: int) -> None:
    """The life of a process."""
    # a signal to the whole group is for the parent, which may want more batches before it ends
    for name in {"SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"} & set(signal.Signals.__members__):
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    gc.freeze()  # what came with the fork is not ours to free
    torch.set_num_threads(1)
    with suppress(EOFError, OSError):  # the parent is gone
        while os.getppid() == parent:
            if pipe.poll(_WATCH):
                slot, part = pipe.recv()
                pipe.send(_answer(read, part, [memory[slot] for memory in slots], note))


def _answer(read: Read, part: Part, slot: list[Tensor], note: Tensor) -> _Answer:
    try:
        rows, problems = _rows(read, part, note.numpy())
        for memory, row in zip(slot, zip(*rows, strict=True), strict=True):
            torch.stack(row, out=memory[: len(rows)])
    except Exception:  # noqa: BLE001 - the parent raises it
        return _Answer([], traceback.format_exc())
    return _Answer(problems)
