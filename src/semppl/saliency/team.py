"""Processes that share the work: results come in the order of the tasks, few of which are under way at once.

Ctrl-C reaches this process alone. It then hands out no more tasks, and what is in hand is still finished, so
that nothing done is lost.
"""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from typing import Final, TypeVar, final

from semppl.core.errors import RunError
from semppl.core.processes import serve_parent, shielded
from semppl.train.interrupt import Interrupted, Stopper

T = TypeVar("T")
R = TypeVar("R")

# tasks under way for each process: one in hand and one waiting for it
_AHEAD: Final = 2


@final
class Team:
    """Made by `team`; without processes the work is done here."""

    def __init__(self, pool: ProcessPoolExecutor | None, workers: int, stop: Stopper, goes_on: str) -> None:
        self._pool, self._workers, self._stop, self._goes_on = pool, workers, stop, goes_on

    def over(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results, as long as no signal came: `check` afterwards."""
        waiting: deque[Future[R]] = deque()
        for task in tasks:
            if self._stop.signum is not None:
                break
            if self._pool is None:
                yield work(task)
                continue
            with self._alive(), shielded():
                waiting.append(self._pool.submit(work, task))
            if len(waiting) > _AHEAD * self._workers:
                yield self._result(waiting.popleft())
        while waiting:
            future = waiting.popleft()
            if self._stop.signum is None or not future.cancel():
                yield self._result(future)

    def check(self) -> None:
        """Leave if a signal came."""
        if (signum := self._stop.signum) is not None:
            name = signal.Signals(signum).name
            raise Interrupted(f"stopped by {name}, what is done is kept: {self._goes_on}", signum)

    def _result(self, future: "Future[R]") -> R:
        with self._alive():
            return future.result()

    @contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool as error:
            self.check()
            raise RunError(
                "a process that made masks died, perhaps for want of memory: what is done is kept: "
                f"{self._goes_on}, or use fewer --workers"
            ) from error


@contextmanager
def team(workers: int, *, begin: Callable[[], None], goes_on: str) -> Iterator[Team]:
    """Processes that call `begin` first; with no workers the work is done here.

    `goes_on` says what a person can do after an end before its time.
    """
    with Stopper() as stop:
        if not workers:
            yield Team(None, workers, stop, goes_on)
            return
        resource_tracker.ensure_running()  # it would let the first process hear Ctrl-C
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (begin,)) as pool:
            try:
                yield Team(pool, workers, stop, goes_on)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _begin(begin: Callable[[], None]) -> None:
    serve_parent()
    begin()
