"""Does our difference point where the paper's does? With a word for what chance may do. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from semppl.core.paired import Difference, sign_of

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
    "better",
    "worse",
    "missing",
]


@dataclass(frozen=True)
class Verdict:
    """A word, and what is to be said with it."""

    word: Word
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.detail})" if self.detail else self.word


def verdict(ours: Difference | None, paper: Sequence[float], same: float) -> Verdict:
    """Whether both point the same way; differences of the paper up to `same` are none."""
    if ours is None:
        return Verdict("missing", "no seed has both rows")
    if not paper:
        return Verdict("not in the paper")
    if ours.error is None:
        return Verdict("one seed cannot tell")
    return _compared(ours.sign, {sign_of(each, same) for each in paper})


def alone(ours: Difference | None) -> Verdict:
    """Of a difference that the paper does not have, whether it is one."""
    if ours is None:
        return Verdict("missing", "no seed has both rows")
    if ours.error is None:
        return Verdict("one seed cannot tell")
    if ours.sign == 0:
        return Verdict("too close to tell", "it may be chance")
    return Verdict("better" if ours.sign > 0 else "worse")


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
