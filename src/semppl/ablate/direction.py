"""Does our difference point where the paper's does? Paired over seeds, with a word for what chance may do.

No torch.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

# one-sided 5 % quantiles of Student's t for 1, 2, … degrees of freedom; with more seeds the last is strict
_STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
SAME_TOP1: Final = 0.1
"""The paper's unchanged cell has 69.9 or 70.0 in its different tables: such a difference is none."""
SAME_PSEUDO: Final = 1.0
"""The same of pseudo-labels, which are 68.6 to 70.5 there."""

Word = Literal[
    "agrees",
    "the other way",
    "too close to tell",
    "differs",
    "one seed cannot tell",
    "not in the paper",
    "missing",
]


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
        return _sign(self.mean, 0.0)

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.1f}"
        return f"{signed(self.mean)}{error}"


@dataclass(frozen=True)
class Verdict:
    """A word, and what is to be said with it."""

    word: Word
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.detail})" if self.detail else self.word


def difference(ours: Sequence[float], reference: Sequence[float]) -> Difference | None:
    """Of the same seeds in the same order; None where there is none."""
    if not ours:
        return None
    paired = [one - other for one, other in zip(ours, reference, strict=True)]
    count = len(paired)
    error = statistics.stdev(paired) / math.sqrt(count) if count > 1 else None
    return Difference(statistics.mean(paired), error, count)


def verdict(ours: Difference | None, paper: Sequence[float], same: float) -> Verdict:
    """Whether both point the same way; differences of the paper up to `same` are none."""
    if ours is None:
        return Verdict("missing", "no seed has both rows")
    if not paper:
        return Verdict("not in the paper")
    if ours.error is None:
        return Verdict("one seed cannot tell")
    return _compared(ours.sign, {_sign(each, same) for each in paper})


def _compared(ours: int, signs: set[int]) -> Verdict:
    """Of our sign and the paper's."""
    if signs >= {1, -1}:
        return Verdict("too close to tell", "the paper has it both ways")
    expected = sum(signs)
    if ours == 0:
        why = "the paper sees no difference either" if not expected else "it may be chance"
        return Verdict("too close to tell", why)
    if expected == 0:
        return Verdict("differs", "the paper sees no difference")
    return Verdict("agrees" if ours == expected else "the other way")


def signed(value: float) -> str:
    """With its sign, and a minus as in print."""
    return f"{value:+.1f}".replace("-", "−")


def _sign(value: float, same: float) -> int:
    return 0 if abs(value) <= same + 1e-9 else (1 if value > 0 else -1)
