"""A difference of two rows over their seeds, with its standard error. No torch here."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# one-sided 5 % quantiles of Student's t for 1, 2, … degrees of freedom; with more seeds the last is strict
_STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)


@dataclass(frozen=True)
class Difference:
    """Ours, over the seeds that both rows have."""

    mean: float
    error: float | None
    """Standard error of the mean of paired differences; None with one seed."""
    seeds: int

    @property
    def sign(self) -> int:
        """0 where chance alone may have made it: a one-sided t-test at 5 %, which one seed never passes."""
        if self.error is None or abs(self.mean) <= _STUDENT[min(self.seeds - 2, 9)] * self.error:
            return 0
        return sign_of(self.mean, 0.0)

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.1f}"
        return f"{signed(self.mean)}{error}"


def difference(ours: Sequence[float], reference: Sequence[float]) -> Difference | None:
    """Of the same seeds in the same order; None where there is none."""
    if not ours:
        return None
    paired = [one - other for one, other in zip(ours, reference, strict=True)]
    count = len(paired)
    error = statistics.stdev(paired) / math.sqrt(count) if count > 1 else None
    return Difference(statistics.mean(paired), error, count)


def unpaired(ours: Sequence[float], reference: Sequence[float]) -> Difference | None:
    """Of means of seeds that have nothing in common; no error where one side has a single seed."""
    if not ours or not reference:
        return None
    both, fewer = (ours, reference), min(len(ours), len(reference))
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in both)) if fewer > 1 else None
    return Difference(statistics.mean(ours) - statistics.mean(reference), error, fewer)


def signed(value: float) -> str:
    """With its sign, and a minus as in print."""
    return f"{value:+.1f}".replace("-", "−")


def sign_of(value: float, same: float) -> int:
    """−1, 0 or 1; up to `same` it is 0."""
    return 0 if abs(value) <= same + 1e-9 else (1 if value > 0 else -1)
