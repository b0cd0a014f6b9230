"""Who is still there: every rank says so each second, and how far it has come."""

import threading
import time
from contextlib import suppress
from typing import Final, final

from torch._C._distributed_c10d import Store

EVERY: Final = 1.0


@final
class Heartbeat:
    """Writes to the group's store from a thread of its own, so that a rank which waits for others is not
    taken for one that others wait for.
    """

    def __init__(self, store: Store, rank: int, world: int, *, every: float = EVERY) -> None:
        self._store, self._rank, self._world, self._every = store, rank, world, every
        self._over, self._beats = threading.Event(), 0
        self.round = 0
        """Meetings of all ranks that this one has come to."""
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        with suppress(RuntimeError):  # the store has gone, and so will this rank
            while not self._over.wait(self._every):
                self._beats += 1
                self._store.set(self._key(self._rank), f"{self._beats} {self.round}")

    def close(self) -> None:
        """Before the store goes."""
        self._over.set()
        self._thread.join(5 * self._every)

    def silent(self) -> list[int]:
        """Ranks that have stopped, or that have not come to the meeting where this one is."""
        before = self._within_reach()
        time.sleep(3 * self._every)
        after = self._within_reach()
        if before is None or after is None:
            return [0]  # whose process or machine holds the store
        stopped = [rank for rank in after if rank != self._rank and before[rank] == after[rank]]
        return stopped or [rank for rank, (_, come) in after.items() if come < self.round]

    def _within_reach(self) -> dict[int, tuple[int, int]] | None:
        """`_seen`, or None where the store does not answer: asking it may take for ever."""
        heard: list[dict[int, tuple[int, int]]] = []
        asking = threading.Thread(target=self._ask, args=(heard,), daemon=True)
        asking.start()
        asking.join(5 * self._every)
        return heard[0] if heard else None

    def _ask(self, heard: list[dict[int, tuple[int, int]]]) -> None:
        with suppress(RuntimeError):  # it has gone
            heard.append(self._seen())

    def _seen(self) -> dict[int, tuple[int, int]]:
        """(beats, meetings) of each rank."""
        seen = dict.fromkeys(range(self._world), (0, 0))
        for rank in seen:
            if self._store.check([self._key(rank)]):
                beats, come = self._store.get(self._key(rank)).decode().split()
                seen[rank] = int(beats), int(come)
        return seen

    @staticmethod
    def _key(rank: int) -> str:
        return f"semppl/beat/{rank}"
