"""Accuracy by number of labels, as a picture beside the page."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final

from semppl.core import by_labels
from semppl.core.by_labels import Line, Point, draw_lines_, point
from semppl.core.counted import counted
from semppl.report.table.beside import Published
from semppl.report.table.columns import FINE_TUNED, in_order
from semppl.report.table.method import SUPERVISED, Method
from semppl.report.table.sections import Row, Section, finite_epochs
from semppl.report.table.settings import MADE_BY

_COLOURS: Final = {"supervised": "tab:green", "base": "tab:orange", "semantic": "tab:blue"}
_MARKS: Final = "sD^vP*X"
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?", re.ASCII)


def lines(sections: Sequence[Section]) -> list[Line]:
    """Labels alone, the objective without and with semantic positives: of each the row with the most seeds,
    the first of equals. Of several networks, objectives and numbers of epochs it is those with the most runs,
    of epochs then the most of them, so that a line says what labels do; the legend tells epochs where rows
    differ in them. Rows that take the method apart are left to the tables. A line has two points at least.
    """
    kept = (_commonest(sections, _network), _commonest(sections, _objective), _commonest(sections, _epochs))
    several = len({_epochs(row) for section in sections for row in section.rows} - {""}) > 1
    length = f", {counted(kept[2], 'epoch')}" if several else ""
    found: dict[tuple[Method, str], dict[int, Point]] = {}
    for section in sections:
        for row in _main_rows(section, kept):
            for column in _columns(row):
                points = found.setdefault((row.method, column), {})
                points[section.labels] = point(list(row.values(column).values()))
    return [
        Line(
            method.name if method is SUPERVISED else f"{method.name}{length}, {column}",
            points,
            _COLOURS[method.kind],
            style="-" if column.startswith(FINE_TUNED) else "--",
        )
        for (method, column), points in found.items()
        if len(points) > 1
    ]


def _network(row: Row) -> str:
    return " ".join(row.settings.get(name, "") for name in ("net.encoder", "net.width", "net.sk"))


def _objective(row: Row) -> str:
    return row.method.objective


def _epochs(row: Row) -> str:
    """None of labels alone, and none where minutes decided."""
    return row.epochs if "epochs" in row.settings and row.method is not SUPERVISED else ""


def _commonest(sections: Sequence[Section], what: Callable[[Row], str]) -> str:
    """By runs, and of equals the one with more epochs; an objective of labels alone is none."""
    rows = sorted((row for section in sections for row in section.rows), key=finite_epochs, reverse=True)
    counts = Counter(what(row) for row in rows for _ in row.runs)
    del counts[""]
    return next((value for value, _ in counts.most_common(1)), "")


def _main_rows(section: Section, kept: tuple[str, str, str]) -> list[Row]:
    network, objective, epochs = kept
    rows: dict[str, Row] = {}
    for row in sorted(section.rows, key=lambda row: -len(row.seeds)):
        fitting = _network(row) == network and _objective(row) in ("", objective)
        if row.method.kind in _COLOURS and fitting and _epochs(row) in ("", epochs):
            rows.setdefault(row.method.name, row)
    return sorted(rows.values(), key=lambda row: row.method.order)


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


def drawable(sections: Sequence[Section]) -> bool:
    """Not where there is no line, or several data sets."""
    data = {section.data for section in sections}
    return len(data) == 1 and bool(lines(sections)) and by_labels.drawable()


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
