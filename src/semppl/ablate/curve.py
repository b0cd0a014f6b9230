"""The learning curve in labels: SemPPL beside the same labels without semantic positives. No torch here."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from semppl.ablate.direction import SAME_TOP1, verdict
from semppl.ablate.summary import Metric, Summary
from semppl.ablate.tables import with_name, without_name
from semppl.core.by_labels import Line, draw_lines_, drawable, point
from semppl.core.paired import difference, signed
from semppl.core.tables import NOTHING, spread

COLUMNS: Final = (
    "labels per class",
    "SemPPL, linear",
    "without, linear",
    "gain",
    "SemPPL, k-NN",
    "without, k-NN",
    "pseudo-labels right",
)
NARROW: Final = ("per class", "linear", "without", "gain", "k-NN", "k-NN without", "pseudo")
"""The same for a console."""
SPARE: Final = (("k-NN", "k-NN without"), ("pseudo",))
"""What a console that is too narrow goes without, the first first."""


def curve_rows(summary: Summary, per_class: Sequence[int]) -> list[list[str]]:
    """A row for each number of labels; the gain is paired over seeds, with its standard error."""
    rows = []
    for count in per_class:
        semppl, without = with_name(count), without_name(count)
        loss = summary.difference(summary.table.row(without), "linear")
        error = "" if loss is None or loss.error is None else f" ± {loss.error:.1f}"
        rows.append(
            [
                str(count),
                _spread(summary, semppl, "linear"),
                _spread(summary, without, "linear"),
                NOTHING if loss is None else f"{signed(-loss.mean)}{error}",
                _spread(summary, semppl, "knn"),
                _spread(summary, without, "knn"),
                _spread(summary, semppl, "pseudo"),
            ]
        )
    return rows


def _spread(summary: Summary, row: str, metric: Metric) -> str:
    return spread(list(summary.values(row, metric).values()))


def gains(summary: Summary, per_class: Sequence[int]) -> str:
    """Whether semantic positives help most where labels are few, as in the paper."""
    found = {count: gain for count in per_class if (gain := _gains(summary, count))}
    if len(found) < 2:
        return "the gain from semantic positives at different numbers of labels is not known yet"
    few, many = found[min(found)], found[max(found)]
    both = [seed for seed in few if seed in many]
    ours = difference([few[seed] for seed in both], [many[seed] for seed in both])
    means = [signed(statistics.mean(each.values())) for each in (few, many)]
    return (
        f"the gain from semantic positives is larger with fewer labels: paper +10.4 at 1 % and +3.6 at 10 %, "
        f"ours {means[0]} with {min(found)} per class and {means[1]} with {max(found)}: "
        f"{verdict(ours, [10.4 - 3.6], SAME_TOP1)}"
    )


def _gains(summary: Summary, count: int) -> dict[int, float]:
    """Seed → how much better it is with semantic positives."""
    semppl, without = (summary.values(name(count), "linear") for name in (with_name, without_name))
    return {seed: semppl[seed] - without[seed] for seed in semppl if seed in without}


def draw_curve(summary: Summary, per_class: Sequence[int], path: Path) -> bool:
    """The picture; False without matplotlib, which is an extra."""
    if not drawable():
        return False
    lines = []
    for name, title, colour in (
        (with_name, "SemPPL", "tab:blue"),
        (without_name, "without semantic positives", "tab:orange"),
    ):
        found = {count: list(summary.values(name(count), "linear").values()) for count in per_class}
        lines.append(Line(title, {count: point(values) for count, values in found.items() if values}, colour))
    draw_lines_(
        path,
        lines,
        per_class,
        across="labels per class",
        upward="linear accuracy, %",
        made_by="semppl ablate",
    )
    return True
