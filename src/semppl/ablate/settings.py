"""The flags of `semppl ablate` that are not those of a run, and the names of its tables. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.errors import UserError, choose

TABLES: Final[Mapping[str, str]] = {
    "base": "base objective: ReLICv2, BYOL and SimCLR, each with and without semantic positives",
    "parts": "without pseudo-labels, and without semantic positives",
    "oracle": "true labels choose the positives: an upper bound",
    "positives": "number of semantic positives",
    "epochs": "length of training",
    "voting": "view voting on and off",
    "k": "neighbours of a ballot",
    "queue": "length of the queue",
    "alpha": "weight of the semantic loss",
    "labels": "labels for each class, with and without semantic positives",
    "own": "your own rows, beyond the paper",
}
"""Name → what is varied."""
PER_CLASS: Final = (1, 2, 4, 10, 25)


@dataclass(frozen=True, kw_only=True)
class AblateFlags:
    """See the verb."""

    per_class: tuple[int, ...] = ()
    """Of the table labels: how many labels each class keeps; by default 1 2 4 10 25."""
    rows: tuple[str, ...] = ()
    """Of the table own: what each row changes, as method.k=5 or method.positives=10,method.alpha=0.06."""
    seeds: int = 1
    """How many seeds, from --seed on; the table then has mean and standard deviation, and a verdict that
    knows how far chance goes."""
    jobs: int = 1
    """Cells that are trained at a time, each in a process of its own; they share the cores."""
    out: Path | None = None
    """Where cells and tables go; by default runs/ablate-NAME. Tables of one configuration share cells."""
    keep: Path | None = None
    """Put a small copy of each finished cell here, and the tables beside them: with these alone the same
    command writes the tables again and repeats no cell, on any machine."""
    overwrite: bool = False
    """Replace cells that were made with another configuration, and a page that has other rows; finished cells
    of this configuration stay."""
    debug: bool = False
    """Show the traceback of an error."""


def tables_of(words: str) -> tuple[str, ...]:
    """Names joined by commas, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in words.split(",") if name.strip()))
    if not names:
        raise UserError(f"say which table: semppl ablate TABLE, one of {', '.join(TABLES)}")
    for name in names:
        choose(TABLES, name, "table")
    return names


def not_joined(tables: Sequence[str]) -> str:
    """For whoever puts blanks between names."""
    return f"several tables are joined by commas: semppl ablate {','.join(tables)}"


def check_flags(tables: Sequence[str], flags: AblateFlags) -> None:
    """Refuse what cannot work, before anything runs."""
    for flag, value in (("--seeds", flags.seeds), ("--jobs", flags.jobs)):
        if value < 1:
            raise UserError(f"{flag} is {value}: it must be at least 1")
    if flags.per_class and "labels" not in tables:
        raise UserError(f"--per-class is of the table labels: leave it out of {', '.join(tables)}")
    if wrong := [count for count in flags.per_class if count < 1]:
        raise UserError(f"--per-class is {wrong[0]}: it must be at least 1")
    if flags.rows and "own" not in tables:
        raise UserError(f"--rows is of the table own: leave it out of {', '.join(tables)}")
    if "own" in tables and not flags.rows:
        raise UserError("say what each row of the table own changes: --rows method.k=5 method.positives=1")


def labels_per_class(flags: AblateFlags) -> tuple[int, ...]:
    """Rows of the table labels: each once, ascending."""
    return tuple(sorted(set(flags.per_class or PER_CLASS)))
