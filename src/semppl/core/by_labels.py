"""Accuracy by number of labels as a picture: what tables of all kinds share. No torch here."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from semppl.core.rundir import write_atomically

NO_PICTURE: Final = "no picture was drawn, for there is no matplotlib: pip install 'semppl[plots]', and again"
Point = tuple[float, float]
"""(mean, standard deviation over seeds)."""


@dataclass(frozen=True)
class Line:
    """One way to use the labels."""

    name: str
    points: Mapping[int, Point]
    """By number of labels."""
    colour: str
    style: str = "-"
    mark: str = "o"
    width: float = 1.8


def point(values: Sequence[float]) -> Point:
    """Of seeds; one has no deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def drawable() -> bool:
    """Whether there is matplotlib, which is an extra."""
    return find_spec("matplotlib") is not None


def draw_lines_(
    path: Path, lines: Sequence[Line], counts: Sequence[int], *, across: str, upward: str, made_by: str
) -> None:
    """Into a PNG file that says who made it, with a bar of a standard deviation where there is one.

    The last lines lie below the first.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    figure = Figure(figsize=(7.2, 5.0), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    for place, line in enumerate(lines):
        points = sorted(line.points.items())
        axes.errorbar(
            [count for count, _ in points],
            [mean for _, (mean, _) in points],
            [deviation for _, (_, deviation) in points],
            fmt=line.mark,
            linestyle=line.style,
            linewidth=line.width,
            markersize=5,
            capsize=3,
            color=line.colour,
            label=line.name.replace("`", "").replace("$", r"\$"),  # no code, no formula
            zorder=3 - place / len(lines),
        )
    axes.set_xscale("log")
    axes.set_xticks(list(counts), [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set_xlabel(across)
    axes.set_ylabel(upward)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2, handlelength=3.5)
    write_atomically(path, lambda file: figure.savefig(file, format="png", metadata={"Software": made_by}))
