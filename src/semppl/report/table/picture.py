"""Accuracy by number of labels, as a picture beside the page."""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from semppl.core.rundir import write_atomically
from semppl.report.table.beside import Published
from semppl.report.table.columns import FINE_TUNED, in_order
from semppl.report.table.sections import Row, Section, finite_epochs
from semppl.report.table.settings import MADE_BY

Point = tuple[float, float]
"""(mean, standard deviation over seeds)."""
_COLOURS: Final = {"supervised": "tab:green", "base": "tab:orange", "semantic": "tab:blue"}
_MARKS: Final = "sD^vP*X"
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?", re.ASCII)


@dataclass(frozen=True)
class Line:
    """One way to use the labels."""

    name: str
    colour: str
    fine_tuned: bool
    points: dict[int, Point]
    """By number of labels."""


def lines(sections: Sequence[Section]) -> list[Line]:
    """Labels alone, the objective without and with semantic positives: of each the row with the most seeds,
    then epochs, the first of equals. Of several networks and objectives it is those with the most runs, and
    rows that take the method apart are left to the tables. A line has two points at least.
    """
    found: dict[tuple[str, str], Line] = {}
    for section in sections:
        for row in _main_rows(section, _commonest(sections, _network), _commonest(sections, _objective)):
            colour = _COLOURS[row.method.kind]
            for column in _columns(row):
                named = row.method.name if row.method.kind == "supervised" else f"{row.method.name}, {column}"
                tuned = column.startswith(FINE_TUNED)
                line = found.setdefault((row.method.name, column), Line(named, colour, tuned, {}))
                line.points[section.labels] = _point(list(row.values(column).values()))
    return [line for line in found.values() if len(line.points) > 1]


def _network(row: Row) -> str:
    return " ".join(row.settings.get(name, "") for name in ("net.encoder", "net.width", "net.sk"))


def _objective(row: Row) -> str:
    return row.method.objective


def _commonest(sections: Sequence[Section], what: Callable[[Row], str]) -> str:
    """By runs; an objective of labels alone is none."""
    counts = Counter(what(row) for section in sections for row in section.rows for _ in row.runs)
    del counts[""]
    return next((value for value, _ in counts.most_common(1)), "")


def _main_rows(section: Section, network: str, objective: str) -> list[Row]:
    rows: dict[str, Row] = {}
    for row in sorted(section.rows, key=lambda row: (-len(row.seeds), -finite_epochs(row))):
        fitting = _network(row) == network and _objective(row) in ("", objective)
        if row.method.kind in _COLOURS and fitting:
            rows.setdefault(row.method.name, row)
    return sorted(rows.values(), key=lambda row: row.method.order)


def _columns(row: Row) -> list[str]:
    """Without neighbours where there is a classifier."""
    columns = in_order(row.columns)
    return [each for each in columns if not each.startswith("k-NN")] or columns


def _point(values: Sequence[float]) -> Point:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def published_lines(published: Sequence[Published]) -> list[Line]:
    """Those with two points at least, `95.7` or `95.7 ± 0.1`; what else is written is no number to draw."""
    found: dict[str, Line] = {}
    for each in published:
        if number := _NUMBER.fullmatch(each.top1):
            line = found.setdefault(each.name, Line(each.name, "0.55", fine_tuned=False, points={}))
            line.points[each.labels] = (float(number[1]), float(number[2] or 0))
    return [line for line in found.values() if len(line.points) > 1]


def drawable(sections: Sequence[Section]) -> bool:
    """Not where there is no line, or several data sets, or no matplotlib, which is an extra."""
    data = {section.data for section in sections}
    return len(data) == 1 and bool(lines(sections)) and find_spec("matplotlib") is not None


def draw_(path: Path, sections: Sequence[Section], published: Sequence[Published]) -> None:
    """Into a file, which knows whose it is."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    ours, labels = lines(sections), sorted({section.labels for section in sections})
    figure = Figure(figsize=(7.2, 5.0), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    theirs = published_lines([each for each in published if each.labels in labels])
    for place, line in enumerate([*ours, *theirs]):
        mine, points = place < len(ours), sorted(line.points.items())
        style = ("-" if line.fine_tuned else "--") if mine else ":"
        axes.errorbar(
            [count for count, _ in points],
            [mean for _, (mean, _) in points],
            [deviation for _, (_, deviation) in points],
            fmt="o" if mine else _MARKS[(place - len(ours)) % len(_MARKS)],
            linestyle=style,
            linewidth=1.8 if mine else 0.9,
            markersize=5,
            capsize=3,
            color=line.colour,
            label=_label(line.name if mine else f"published: {line.name}"),
            zorder=3 if mine else 2,
        )
    axes.set_xscale("log")
    axes.set_xticks(labels, [f"{count:,}" for count in labels])
    axes.minorticks_off()
    axes.set_xlabel("labels")
    axes.set_ylabel("top-1 accuracy, %")
    axes.grid(visible=True, alpha=0.3)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2, handlelength=3.5)
    write_atomically(path, lambda file: figure.savefig(file, format="png", metadata={"Software": MADE_BY}))


def _label(name: str) -> str:
    """Without what is read as a formula, or as code."""
    return name.replace("`", "").replace("$", r"\$")
