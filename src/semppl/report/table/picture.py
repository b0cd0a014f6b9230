"""Accuracy by number of labels, as a picture beside the page."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final

from semppl.core.by_labels import Line, Point, draw_lines_, point
from semppl.core.counted import counted
from semppl.report.table.beside import Published
from semppl.report.table.columns import FINE_TUNED, in_order
from semppl.report.table.method import SUPERVISED, Method
from semppl.report.table.row import Row, finite_epochs
from semppl.report.table.sections import Section
from semppl.report.table.settings import MADE_BY

_COLOURS: Final = {
    "supervised": "tab:green",
    "scratch": "tab:olive",
    "base": "tab:orange",
    "semantic": "tab:blue",
}
_MARKS: Final = "sD^vP*X"
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?", re.ASCII)


def lines(sections: Sequence[Section]) -> list[Line]:
    """Labels alone, the objective without and with semantic positives: of each the row with the most seeds,
    the first of equals. Of several networks and objectives it is those with the most runs. A line has one
    number of epochs, so that it says what labels do, and the legend tells it where rows differ in it. Rows
    that take the method apart are left to the tables. A line has two points at least.
    """
    drawn = _main_rows(sections)
    lengths = _lengths(drawn)
    several = len({_epochs(row) for _, row in drawn} - {""}) > 1
    chosen: dict[tuple[int, Method], Row] = {}
    for labels, row in drawn:
        if _epochs(row) == lengths[row.method]:
            chosen.setdefault((labels, row.method), row)
    found: dict[tuple[Method, str], dict[int, Point]] = {}
    for (labels, method), row in chosen.items():
        for column in _columns(row):
            found.setdefault((method, column), {})[labels] = point(list(row.values(column).values()))
    return [
        Line(
            method.name
            if method is SUPERVISED
            else f"{method.name}{_said(lengths[method], several)}, {column}",
            points,
            _COLOURS[method.kind],
            style="-" if column.startswith(FINE_TUNED) else "--",
        )
        for (method, column), points in sorted(found.items(), key=lambda item: item[0][0].order)
        if len(points) > 1
    ]


def _said(epochs: str, several: bool) -> str:
    return f", {counted(epochs, 'epoch')}" if several and epochs else ""


def _main_rows(sections: Sequence[Section]) -> list[tuple[int, Row]]:
    """With their numbers of labels, those with the most seeds first."""
    rows = [(section.labels, row) for section in sections for row in section.rows]
    network, objective = (_commonest([row for _, row in rows], what) for what in (_network, _objective))
    fitting = [
        (labels, row)
        for labels, row in rows
        if row.method.kind in _COLOURS and _network(row) == network and _objective(row) in ("", objective)
    ]
    return sorted(fitting, key=lambda pair: -len(pair[1].seeds))


def _lengths(rows: Sequence[tuple[int, Row]]) -> dict[Method, str]:
    """Method → the epochs of its lines: those with which all methods together have the most numbers on lines,
    so that these compare and a line of three seeds is not left for two of one; a method without a line of so
    many has others, those with which it has the most.
    """
    covered: dict[Method, dict[str, dict[str, dict[int, int]]]] = {}
    runs: dict[str, set[Path]] = {}
    for labels, row in rows:
        columns = covered.setdefault(row.method, {}).setdefault(_epochs(row), {})
        for column in _columns(row):
            columns.setdefault(column, {}).setdefault(labels, len(row.values(column)))
        runs.setdefault(_epochs(row), set()).update(run.path for run in row.runs)

    def best(methods: Sequence[Method]) -> str:
        """Of equals those of more runs, then the most."""
        lengths = {each for method in methods for each in covered[method]}
        known = {each: sum(_numbers(covered[method].get(each)) for method in methods) for each in lengths}
        return max(lengths, key=lambda each: (known[each], len(runs[each]), float(each or 0)), default="")

    common = best([method for method in covered if method.pretrained])
    return {method: common if _numbers(of.get(common)) else best([method]) for method, of in covered.items()}


def _numbers(columns: Mapping[str, Mapping[int, int]] | None) -> int:
    """Of all seeds of the points on lines, which have two at least."""
    return sum(sum(seeds.values()) for seeds in (columns or {}).values() if len(seeds) > 1)


def _network(row: Row) -> str:
    return " ".join(row.settings.get(name, "") for name in ("net.encoder", "net.width", "net.sk"))


def _objective(row: Row) -> str:
    return row.method.objective


def _epochs(row: Row) -> str:
    """None from random weights, where minutes decided, and where they are not known."""
    told = "epochs" in row.settings and row.method.pretrained and finite_epochs(row)
    return row.epochs if told else ""


def _commonest(rows: Sequence[Row], what: Callable[[Row], str]) -> str:
    """By runs; an objective of labels alone is none."""
    counts = Counter(what(row) for row in rows for _ in row.runs)
    del counts[""]
    return next((value for value, _ in counts.most_common(1)), "")


def _columns(row: Row) -> list[str]:
    """Without neighbours where there is a classifier."""
    columns = in_order(row.columns)
    return [each for each in columns if not each.startswith("k-NN")] or columns


def published_lines(published: Sequence[Published]) -> list[Line]:
    """Those with two points at least, `95.7` or `95.7 ± 0.1`; what else is written is no number to draw."""
    found: dict[str, dict[int, Point]] = {}
    for each in published:
        if number := _NUMBER.fullmatch(each.top1):
            found.setdefault(each.name, {})[each.labels] = (float(number[1]), float(number[2] or 0))
    several = [(name, points) for name, points in found.items() if len(points) > 1]
    return [
        Line(f"published: {name}", points, "0.55", style=":", mark=mark, width=0.9)
        for (name, points), mark in zip(several, cycle(_MARKS), strict=False)
    ]


def worth_drawing(sections: Sequence[Section]) -> bool:
    """Not where there is no line, or several data sets."""
    data = {section.data for section in sections}
    return len(data) == 1 and bool(lines(sections))


def draw_(path: Path, sections: Sequence[Section], published: Sequence[Published]) -> None:
    """Into a file, which knows whose it is."""
    counts = sorted({section.labels for section in sections})
    theirs = published_lines([each for each in published if each.labels in counts])
    draw_lines_(
        path,
        [*lines(sections), *theirs],
        counts,
        across="labels",
        upward="top-1 accuracy, %",
        made_by=MADE_BY,
    )
