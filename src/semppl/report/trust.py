"""How far pseudo-labels can be trusted, by the ballots that agree, over training: the paper's figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semppl.core.trust import Trust, trust_by_votes
from semppl.report.curves import Metrics, bins, epoch_of
from semppl.report.lenient import counts

_BINS: Final = 60
_AT_THE_END: Final = 0.1


@dataclass(frozen=True)
class TrustOverTime:
    """A list of thresholds 1, …, ballots at each of some epochs."""

    epochs: tuple[float, ...]
    lines: tuple[tuple[Trust, ...], ...]
    at_the_end: tuple[Trust, ...]
    """Over the last tenth of the lines."""

    @property
    def ballots(self) -> int:
        """Of an image."""
        return len(self.at_the_end)


def trust_over_training(metrics: Metrics, most: int = _BINS) -> TrustOverTime | None:
    """Where truth was withheld and can be compared; counts of neighbouring lines are added, not averaged."""
    rows = _counted(metrics, ("pseudo/right_by_votes", "pseudo/known_by_votes"))
    if not rows:
        return None
    lines, epochs = [], []
    for part in bins(len(rows), most):
        epochs.append(rows[part][-1][0])
        lines.append(_trust([pair for _, pair in rows[part]]))
    last = max(round(len(rows) * _AT_THE_END), 1)
    return TrustOverTime(tuple(epochs), tuple(lines), _trust([pair for _, pair in rows[-last:]]))


def coverage_over_training(metrics: Metrics, most: int = _BINS) -> TrustOverTime | None:
    """The same where no truth is known: only which share of the images reaches a threshold."""
    keys = ("pseudo/right_by_votes", "pseudo/known_by_votes")
    return trust_over_training(
        [{**row, **dict.fromkeys(keys, row.get("pseudo/votes"))} for row in metrics], most
    )


def _counted(metrics: Metrics, keys: tuple[str, str]) -> list[tuple[float, tuple[list[int], list[int]]]]:
    """Lines that have both counts, of as many ballots as the last one."""
    rows = [found for row in metrics if (found := _pair(row, keys)) is not None]
    return [row for row in rows if len(row[1][0]) == len(rows[-1][1][0])]


def _pair(row: Mapping[str, Any], keys: tuple[str, str]) -> tuple[float, tuple[list[int], list[int]]] | None:
    right, known = (counts(row.get(key)) for key in keys)
    epoch = epoch_of(row)
    if right is None or known is None or epoch is None or len(right) != len(known) or len(known) < 2:
        return None
    return epoch, (right, known)


def _trust(pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[Trust, ...]:
    right, known = ([sum(column) for column in zip(*rows, strict=True)] for rows in zip(*pairs, strict=True))
    return tuple(trust_by_votes(right, known))
