"""How far pseudo-labels can be trusted, by the ballots that agree, over training: the paper's figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semppl.core.trust import Trust, counts_at_the_end, trust_by_votes
from semppl.report.curves import Metrics, bins, epoch_of
from semppl.report.lenient import counts, finite

_BINS: Final = 60
_COUNTS: Final = ("pseudo/right_by_votes", "pseudo/known_by_votes")


@dataclass(frozen=True)
class TrustOverTime:
    """A list of thresholds 1, …, ballots at each of some epochs."""

    epochs: tuple[float, ...]
    lines: tuple[tuple[Trust, ...], ...]
    at_the_end: tuple[Trust, ...]
    """Over the last epoch, as a table of runs has it; empty where nothing is known of it."""

    @property
    def ballots(self) -> int:
        """Of an image."""
        return len(self.lines[-1])


def trust_over_training(metrics: Metrics, most: int = _BINS) -> TrustOverTime | None:
    """Where truth was withheld and can be compared; counts of neighbouring lines are added, not averaged."""
    rows = _counted(metrics, _COUNTS)
    if not rows:
        return None
    lines, epochs = [], []
    for part in bins(len(rows), most):
        epochs.append(rows[part][-1][0])
        lines.append(_trust([pair for _, pair in rows[part]]))
    end = last_epoch(metrics)
    return TrustOverTime(tuple(epochs), tuple(lines), () if end is None else _trust([end]))


def coverage_over_training(metrics: Metrics, most: int = _BINS) -> TrustOverTime | None:
    """The same where no truth is known: only which share of the images reaches a threshold."""
    return trust_over_training(
        [{**row, **dict.fromkeys(_COUNTS, row.get("pseudo/votes"))} for row in metrics], most
    )


def last_epoch(metrics: Metrics) -> tuple[list[int], list[int]] | None:
    """Right and known pseudo-labels by votes, added up over the last epoch; None where no truth is known."""
    told = [row for row in metrics if _pair(row, _COUNTS) is not None and finite(row.get("step")) is not None]
    fitting = [row for row in told if len(row[_COUNTS[0]]) == len(told[-1][_COUNTS[0]])]
    if not fitting:
        return None
    step, epoch = finite(fitting[-1].get("step")), finite(fitting[-1].get("epoch"))
    # not more steps than there were, however small the epoch of a damaged line
    steps = round(min(step / epoch, step + 1)) if step and epoch and epoch > 0 else 1
    right, known = counts_at_the_end(fitting, max(steps, 1))
    return (right, known) if sum(known) else None


def right_share(metrics: Metrics) -> float | None:
    """Right among all pseudo-labels of the last epoch, in per cent."""
    if (found := last_epoch(metrics)) is None:
        return None
    right, known = found
    return 100 * sum(right) / sum(known)


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
