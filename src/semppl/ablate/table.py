"""A table of the paper's analysis: its rows, what each changes, and what the paper has for it. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semppl.config import Config

PSEUDO: Final = "pseudo-labels"
"""The column of right pseudo-labels at the end of training; all other columns are top-1 with such a share of
ImageNet's labels."""
DEFAULT: Final = "default"
"""The cell of the configuration as it is."""


class Change(NamedTuple):
    """A change of a configuration, and its part of the cell's name."""

    slug: str
    apply: Callable[[Config], Config]


@dataclass(frozen=True)
class Row:
    """A row of a table: the configuration with some changes."""

    name: str
    changes: tuple[Change, ...] = ()
    paper: Mapping[str, float] = field(default_factory=dict)
    """Column → the paper's number, in per cent."""
    against: str | None = None
    """The row it is compared with; None for a row that others are compared with."""
    effect: tuple[float, ...] = ()
    """The paper's differences, where the paper has them without having such rows."""


@dataclass(frozen=True)
class Table:
    """Rows, and where the paper's numbers stand, if it has any."""

    name: str
    title: str
    rows: Sequence[Row]
    where: str
    """Empty where the paper has no such table."""
    note: str = ""
    """What is not as in the paper."""

    @property
    def columns(self) -> list[str]:
        """Of the paper, each once."""
        return list(dict.fromkeys(column for row in self.rows for column in row.paper))

    def row(self, name: str) -> Row:
        """By name."""
        return next(row for row in self.rows if row.name == name)

    def paper_differences(self, row: Row, *, pseudo: bool) -> list[float]:
        """Of a row and the one it is compared with, for each column that has both; `pseudo`: of the
        pseudo-labels, otherwise of top-1.
        """
        if row.against is None:
            return []
        if row.effect:
            return [] if pseudo else list(row.effect)
        other = self.row(row.against).paper
        both = [column for column in row.paper if column in other and (column == PSEUDO) == pseudo]
        return [round(row.paper[column] - other[column], 1) for column in both]


def applied(row: Row, base: Config) -> tuple[str, Config]:
    """The name of a row's cell, and its configuration: rows that change nothing share the default cell."""
    slugs, config = [], base
    for change in row.changes:
        changed = change.apply(config)
        if changed != config:
            slugs.append(change.slug)
        config = changed
    return "-".join(slugs) or DEFAULT, config
