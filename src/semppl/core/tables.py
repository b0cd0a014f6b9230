"""Numbers over seeds as text, and tables of them in Markdown. No torch here."""

import statistics
from collections.abc import Sequence
from typing import Final

NOTHING: Final = "–"


def spread(values: Sequence[float]) -> str:
    """Mean, with the standard deviation over seeds where there are several; a dash for none."""
    if not values:
        return NOTHING
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Words on the left, numbers on the right."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))
