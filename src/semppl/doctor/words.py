"""Numbers for people: three digits and a unit."""

from itertools import pairwise
from typing import Final

DAY: Final = 86_400.0
YEAR: Final = 365.25 * DAY
_TIMES: Final = (("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", DAY), ("years", YEAR))


def three(value: float) -> str:
    """At least three digits, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def size(count: float) -> str:
    """Bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{three(count)} {unit}"
        count /= 1000
    return f"{three(count)} TB"


def duration(seconds: float) -> str:
    """The smallest unit of which the next one has less than two."""
    for (name, length), (_, longer) in pairwise(_TIMES):
        if seconds < 2 * longer:
            return f"{three(seconds / length)} {name}"
    return f"{three(seconds / YEAR)} years"
