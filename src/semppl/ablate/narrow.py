"""A table for a console that may be narrow: whole columns go rather than cells fold. No torch here."""

from collections.abc import Sequence


def narrowed(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[Sequence[str]], width: int
) -> tuple[list[str], list[list[str]]]:
    """Without as many of the groups of `spare` columns, the first first, as it takes to fit."""
    kept = list(range(len(columns)))
    for group in spare:
        if _width(kept, columns, rows) <= width:
            break
        kept = [i for i in kept if columns[i] not in group]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _width(kept: Sequence[int], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """As it is printed: a space on either side of each cell, and lines between and around them."""
    return 1 + sum(3 + max(len(row[i]) for row in (columns, *rows)) for i in kept)
