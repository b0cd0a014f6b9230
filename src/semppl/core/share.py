"""Which rows of a batch a process has, when several processes share it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows `start` to `stop` of a batch of `total`."""

    start: int
    stop: int
    total: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """For indexing."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, slots=True)
class Share:
    """Process `rank` of `world`: its rows follow those of the ranks before it, and nobody has two more than
    another.
    """

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank {self.rank} of {self.world}")

    def rows(self, total: int) -> Rows:
        """Of a batch of that size."""
        return Rows(total * self.rank // self.world, total * (self.rank + 1) // self.world, total)


WHOLE: Final = Share()
