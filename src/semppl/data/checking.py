"""Many files looked at, by several processes where it is worth it. No torch here.

Processes are spawned, not forked: a parent with threads stays safe, and its memory its own.
"""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import RunError
from semppl.core.processes import serve_parent, shielded
from semppl.data.files import check_file
from semppl.data.paths import Paths

# files that a process looks at before it reports
_CHUNK: Final = 256
# below this many files starting processes takes longer than they save
_FEW: Final = 2000
_ENDING: Final[list[Event]] = []
"""In a process of ours: what tells it to stop early."""

Part = NDArray[np.int64]
"""Positions of some files."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Widths and heights of some files, and (row, problem) of the bad ones."""

    sizes: NDArray[np.int32]
    problems: list[tuple[int, str]]


def check_files(
    root: Path, paths: Paths, todo: Part, workers: int
) -> Generator[tuple[Part, Seen], None, None]:
    """The files at the positions `todo`, part by part. Close it to stop before its end."""
    folder = str(root.absolute())
    parts = (todo[first : first + _CHUNK] for first in range(0, len(todo), _CHUNK))
    if workers < 2 or len(todo) < _FEW:
        for part in parts:
            yield part, _look(folder, paths.take(part))
        return
    waiting: deque[tuple[Part, Future[Seen]]] = deque()
    with _processes(workers) as pool:
        for part in parts:
            with shielded():
                waiting.append((part, pool.submit(_look, folder, paths.take(part))))
            # few are under way at a time, for the sake of memory
            if len(waiting) > 3 * workers:
                yield _result(*waiting.popleft(), paths)
        while waiting:
            yield _result(*waiting.popleft(), paths)


def _look(folder: str, paths: Paths) -> Seen:
    sizes = np.zeros((len(paths), 2), dtype=np.int32)
    problems = []
    for row, path in enumerate(paths):
        if _ENDING and _ENDING[0].is_set():
            break
        facts = check_file(f"{folder}/{path}")
        sizes[row] = facts.width, facts.height
        if facts.problem:
            problems.append((row, facts.problem))
    return Seen(sizes, problems)


def _result(part: Part, seen: Future[Seen], paths: Paths) -> tuple[Part, Seen]:
    try:
        return part, seen.result()
    except BrokenProcessPool as error:
        place = f"{paths[int(part[0])]} to {paths[int(part[-1])]}"
        raise RunError(
            f"a process that looked at images died near {place}: move them away, or try again with"
            " more memory"
        ) from error


@contextmanager
def _processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this block, whatever ends it, and with this process."""
    context = get_context("spawn")
    ending = context.Event()
    with ProcessPoolExecutor(number, context, _begin, (ending,)) as pool:
        try:
            yield pool
        except BaseException:
            ending.set()
            pool.shutdown(cancel_futures=True)
            raise


def _begin(ending: Event) -> None:
    _ENDING[:] = [ending]
    serve_parent()
