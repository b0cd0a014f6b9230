"""Numbers of a run over time, few enough to be drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semppl.report.lenient import finite

MOST: Final = 240
Metrics = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Series:
    """Values at epochs."""

    epochs: tuple[float, ...]
    values: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.values)


def series(metrics: Metrics, key: str, most: int = MOST) -> Series:
    """One metric: means of neighbouring lines, at the epoch of the last of them, so that few are left."""
    points = [
        (epoch, value)
        for row in metrics
        if (epoch := epoch_of(row)) is not None and (value := finite(row.get(key))) is not None
    ]
    parts = [points[part] for part in bins(len(points), most)]
    return Series(
        tuple(part[-1][0] for part in parts),
        tuple(sum(value for _, value in part) / len(part) for part in parts),
    )


def epoch_of(row: Mapping[str, Any]) -> float | None:
    """When a line was written; lines without an epoch count steps."""
    return finite(row.get("epoch", row.get("step")))


def bins(count: int, most: int) -> list[slice]:
    """Consecutive parts of nearly equal length, at most `most` of them, none empty."""
    parts = min(count, most)
    ends = [round(count * (i + 1) / parts) for i in range(parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def loss_terms(metrics: Metrics) -> list[str]:
    """Names of the terms in the order of the file, the total first."""
    names = dict.fromkeys(key for row in metrics for key in row if key.startswith("loss/"))
    return sorted(names, key=lambda name: name != "loss/total")
