"""Cells over processes, some at a time. A signal lets the running ones write their checkpoints; none is lost.

Each cell is a process group of its own, so that Ctrl-C reaches this process alone, which tells the cells
once: a cell that hears it twice would stop at once. A cell whose parent is gone stops by itself.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

from semppl.ablate.cell import Cell
from semppl.core.allocator import keep_freed_memory_
from semppl.core.errors import RunError, UserError
from semppl.core.out_of_memory import SMALLER, out_of_memory
from semppl.train.interrupt import SIGNALS, Interrupted

Work = Callable[[Cell, int, int], None]
"""`work(cell, slot, jobs)` in a process of its own."""
_CONTEXT: Final = multiprocessing.get_context("spawn")
_STOPPED: Final = 3
# seconds between two looks
_LOOK: Final = 1.0


@dataclass(frozen=True)
class End:
    """How the process of a cell ended."""

    cell: Cell
    seconds: float
    error: str | None = None
    """One line; None where all is well."""
    stopped: bool = False
    """By a signal, with its checkpoint written."""


@dataclass(frozen=True)
class _Job:
    cell: Cell
    slot: int
    process: SpawnProcess
    words: Connection
    started: float


def run_cells(
    cells: Sequence[Cell],
    work: Work,
    *,
    jobs: int,
    begin: Callable[[Cell], None],
    ended: Callable[[End], None],
    look: Callable[[], None],
    told: Callable[[int], None],
) -> int | None:
    """All cells in their order, `jobs` at a time; the signal that ended it, if one did.

    `begin` makes a cell's place ready when its turn comes, `ended` hears of each cell that is over, `look` is
    called now and then, and `told` once with the number of cells that were asked to stop.
    """
    waiting, running = deque(cells), dict[int, _Job]()
    asked = False
    with noted() as heard:
        while running or (waiting and not heard):
            while waiting and len(running) < jobs and not heard:
                cell = waiting.popleft()
                try:
                    begin(cell)
                except UserError as error:
                    ended(End(cell, 0.0, str(error)))
                    continue
                job = _started(cell, work, _free_slot(running), jobs)
                running[job.process.sentinel] = job
            if heard and not asked:
                asked = True
                for job in running.values():
                    job.process.terminate()
                told(len(running))
            wait(list(running), timeout=_LOOK)
            for sentinel in [each for each, job in running.items() if not job.process.is_alive()]:
                ended(_end(running.pop(sentinel), stopping=asked))
            look()
    return heard[0] if heard else None


@contextmanager
def noted() -> Iterator[list[int]]:
    """Signals that came meanwhile; none of them stops anything by itself, however often it comes."""
    heard: list[int] = []
    before = {}
    for signum in SIGNALS:
        try:
            before[signum] = signal.signal(signum, lambda number, _frame: heard.append(number))
        except ValueError:  # not the main thread: the caller's own handlers stay
            break
    try:
        yield heard
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _free_slot(running: dict[int, _Job]) -> int:
    taken = {job.slot for job in running.values()}
    return next(slot for slot in range(len(taken) + 1) if slot not in taken)


def _started(cell: Cell, work: Work, slot: int, jobs: int) -> _Job:
    mine, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_live, args=(cell, work, slot, jobs, theirs), name=cell.name)
    with _unheard():
        process.start()
    theirs.close()
    return _Job(cell, slot, process, mine, time.monotonic())


@contextmanager
def _unheard() -> Iterator[None]:
    """A process that starts meanwhile does not hear Ctrl-C until it has left our group."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it would let the first process hear it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(job: _Job, *, stopping: bool) -> End:
    job.process.join()
    code, seconds = job.process.exitcode, time.monotonic() - job.started
    words = _words(job.words)
    job.process.close()
    if code == 0:
        return End(job.cell, seconds)
    if stopping and code in (_STOPPED, -signal.SIGTERM, -signal.SIGINT):
        return End(job.cell, seconds, stopped=True)
    if words is None:
        words = f"ended with status {code}"
        if code is not None and code < 0:
            words = f"ended by {signal.Signals(-code).name}"
    return End(job.cell, seconds, words)


def _words(connection: Connection) -> str | None:
    """What the process said last; nothing where it was killed."""
    try:
        return str(connection.recv()) if connection.poll() else None
    except EOFError:
        return None
    finally:
        connection.close()


def _live(cell: Cell, work: Work, slot: int, jobs: int, words: Connection) -> None:
    """The process of a cell."""
    _leave_group()
    _follow_parent()
    keep_freed_memory_()
    try:
        work(cell, slot, jobs)
    except Interrupted as error:
        words.send(str(error))
        sys.exit(_STOPPED)
    except (UserError, RunError) as error:
        sys.stderr.write(f"semppl: {error}\n")
        words.send(str(error))
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - one line for people, the rest in the log
        traceback.print_exc()
        first, full = next(iter(str(error).splitlines()), ""), out_of_memory(error)
        words.send(f"{full}: {SMALLER}" if full else f"{type(error).__name__}: {first}")
        sys.exit(1)


def _leave_group() -> None:
    if not hasattr(os, "setpgrp"):  # Windows
        return
    os.setpgrp()
    # drops a Ctrl-C that came while this process started: it is the parent's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _follow_parent() -> None:
    """Stop as by a signal when the process that shows our progress is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
