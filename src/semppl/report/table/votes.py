"""How far the pseudo-labels of a row can be trusted at the end of its training, over its seeds."""

import math
import statistics
from collections.abc import Sequence

from semppl.core.tables import NOTHING, markdown_table
from semppl.core.trust import shown_thresholds, trust_by_votes
from semppl.report.table.row import Row
from semppl.report.trust import last_epoch, right_share


def right_shares(row: Row) -> list[float]:
    """Of each run that knows it: right pseudo-labels of the last epoch, in per cent."""
    if not row.method.saw_labels:
        return []
    return [share for run in row.runs if (share := right_share(run.metrics)) is not None]


def vote_tables(rows: Sequence[tuple[str, Row]]) -> list[str]:
    """A table for each number of ballots: precision by ballots that agree, and the share of such images."""
    cells: dict[int, list[list[str]]] = {}
    for name, row in rows:
        if row.method.kind == "semantic":
            for ballots, line in _lines(row):
                cells.setdefault(ballots, []).append([name, *line])
    return [
        markdown_table(
            ("row", *(f"≥ {votes} of {ballots}" for votes in shown_thresholds(ballots))), cells[ballots]
        )
        for ballots in sorted(cells)
        if ballots > 1  # a single ballot always agrees
    ]


def _lines(row: Row) -> list[tuple[int, list[str]]]:
    """Seeds have as many ballots, for these are of the configuration."""
    found = [trust_by_votes(*counts) for run in row.runs if (counts := last_epoch(run.metrics)) is not None]
    if not found:
        return []
    ballots = len(found[-1])
    lines = []
    for votes in shown_thresholds(ballots):
        trust = [each[votes - 1] for each in found if len(each) == ballots]
        precision = [each.precision for each in trust if not math.isnan(each.precision)]
        right = f"{100 * statistics.fmean(precision):.1f}" if precision else NOTHING
        lines.append(f"{right} ({100 * statistics.fmean(each.coverage for each in trust):.1f})")
    return [(ballots, lines)]
