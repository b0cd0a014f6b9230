"""What the cells of a table found, row by row, over seeds. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from semppl.ablate.cell import Score
from semppl.ablate.direction import SAME_PSEUDO, SAME_TOP1, Verdict, alone, verdict
from semppl.ablate.table import PSEUDO, Row, Table
from semppl.core.counted import counted
from semppl.core.paired import Difference, difference, signed
from semppl.core.tables import NOTHING, spread

Metric = Literal["linear", "knn", "pseudo"]


@dataclass(frozen=True)
class Summary:
    """A table, and the scores of its finished cells."""

    table: Table
    seeds: Sequence[int]
    scores: Mapping[tuple[str, int], Score]
    """(name of the row, seed) → score; cells that are not finished are not in it."""

    def values(self, row: str, metric: Metric) -> dict[int, float]:
        """Seed → value, where there is one."""
        found = {}
        for seed in self.seeds:
            score = self.scores.get((row, seed))
            value = None if score is None else getattr(score, metric)
            if value is not None:
                found[seed] = value
        return found

    def difference(self, row: Row, metric: Metric) -> Difference | None:
        """To the row it is compared with, over the seeds that both have."""
        if row.against is None:
            return None
        ours, reference = self.values(row.name, metric), self.values(row.against, metric)
        both = [seed for seed in ours if seed in reference]
        return difference([ours[seed] for seed in both], [reference[seed] for seed in both])

    def judged(self, row: Row, metric: Metric) -> Verdict:
        """Whether the direction is the paper's, where it has such a table; else whether there is one."""
        if not self.table.where:
            return alone(self.difference(row, metric))
        pseudo = metric == "pseudo"
        paper = self.table.paper_differences(row, pseudo=pseudo)
        return verdict(self.difference(row, metric), paper, SAME_PSEUDO if pseudo else SAME_TOP1)

    @property
    def missing(self) -> list[str]:
        """Rows and seeds without a score, in words."""
        lines = []
        for row in self.table.rows:
            lacking = [str(seed) for seed in self.seeds if (row.name, seed) not in self.scores]
            if lacking:
                lines.append(f"{row.name}: seed {', '.join(lacking)}")
        return lines


def directions(summary: Summary) -> list[str]:
    """A line for each row that is compared: linear accuracy, and pseudo-labels where the paper has them."""
    lines = []
    for row in summary.table.rows:
        if row.against is None:
            continue
        lines.append(_direction(summary, row, "linear"))
        if "pseudo" in _compared(summary, row):
            lines.append(_direction(summary, row, "pseudo"))
    return lines


def _direction(summary: Summary, row: Row, metric: Metric) -> str:
    what = "pseudo-labels" if metric == "pseudo" else "linear"
    ours = summary.difference(row, metric)
    paper = summary.table.paper_differences(row, pseudo=metric == "pseudo")
    said = str(ours or NOTHING)
    if summary.table.where:
        said = f"paper {' and '.join(signed(each) for each in paper) or NOTHING}, ours {said}"
    return f"{row.name} against {row.against}, {what}: {said}: {summary.judged(row, metric)}"


def headline(summary: Summary) -> str:
    """All directions in one line."""
    words = [
        summary.judged(row, metric).word for row in summary.table.rows for metric in _compared(summary, row)
    ]
    if not words:
        return "nothing is compared with the paper"
    counts = [f"{words.count(word)} × {word}" for word in dict.fromkeys(words)]
    compared = counted(len(words), "difference")
    against = "direction against the paper, of " if summary.table.where else ""
    return f"{against}{compared}: {', '.join(counts)}"


def _compared(summary: Summary, row: Row) -> list[Metric]:
    """What both have, or we where the paper has no such table; pseudo-labels where any are known."""
    table, metrics = summary.table, list[Metric]()
    beyond = not table.where and row.against is not None
    if beyond or table.paper_differences(row, pseudo=False):
        metrics.append("linear")
    both = all(summary.values(each, "pseudo") for each in (row.name, row.against) if each)
    if both and (beyond or table.paper_differences(row, pseudo=True)):
        metrics.append("pseudo")
    return metrics


def columns(table: Table) -> list[str]:
    """Of the page."""
    paper = [f"paper {column}" if column == PSEUDO else f"paper, {column} labels" for column in table.columns]
    return ["row", *paper, "linear", "k-NN", "pseudo-labels right", "difference, linear"]


def lines(summary: Summary) -> list[list[str]]:
    """The rows under them; a difference says to which row."""
    found = []
    for row in summary.table.rows:
        against = summary.difference(row, "linear")
        last = NOTHING if against is None else f"{against} (to {row.against})"
        found.append([row.name, *_paper(summary.table, row), *_ours(summary, row), last])
    return found


SPARE: Final = (("paper",), ("k-NN",))
"""What a console that is too narrow goes without, the first first: directions name the paper's, too."""


def narrow_columns(table: Table) -> list[str]:
    """The same for a console."""
    return ["row", *(["paper"] if table.where else []), "linear", "k-NN", "pseudo"]


def narrow_lines(summary: Summary) -> list[list[str]]:
    """The rows under them."""
    table = summary.table
    return [
        [row.name, *([" / ".join(_paper(table, row))] if table.where else []), *_ours(summary, row)]
        for row in table.rows
    ]


def _paper(table: Table, row: Row) -> list[str]:
    return [f"{row.paper[column]:.1f}" if column in row.paper else NOTHING for column in table.columns]


def _ours(summary: Summary, row: Row) -> list[str]:
    metrics: list[Metric] = ["linear", "knn", "pseudo"]
    return [spread(list(summary.values(row.name, metric).values())) for metric in metrics]
