"""The picture of a scaling: time and memory against each factor."""

from pathlib import Path
from typing import Any

from semppl.core.errors import UserError
from semppl.core.rundir import write_atomically


def draw_scaling(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel for each factor, both axes logarithmic, a dotted line that grows linearly."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError("the picture needs matplotlib (pip install semppl[plots])") from error
    factors = list(dict.fromkeys(row["factor"] for row in rows))
    figure = Figure(figsize=(3.2 * len(factors), 3.2), layout="constrained", dpi=110)
    for i, factor in enumerate(factors):
        points = [row for row in rows if row["factor"] == factor]
        axes = figure.add_subplot(1, len(factors), i + 1)
        values = [row["value"] for row in points]
        first = points[0]["ms"]
        axes.loglog(values, [row["ms"] for row in points], "o-", color="tab:blue", label="ms")
        linear = [first * value / values[0] for value in values]
        axes.loglog(values, linear, ":", color="tab:blue", alpha=0.6, label="linear")
        highest = max(row["ms"] for row in points)
        if all(row["peak_mb"] for row in points):
            memory = [row["peak_mb"] for row in points]
            axes.loglog(values, memory, "s--", color="tab:orange", label="MB")
            highest = max(highest, *memory)
        axes.set_xticks(values, [_short(value) for value in values])
        axes.minorticks_off()
        axes.set_ylim(top=2 * highest)
        axes.set_xlabel(factor)
        axes.grid(visible=True, which="major", alpha=0.3)
        if i == 0:
            axes.legend(frameon=False)
    figure.suptitle("SemPPL without networks: queue, vote, positives, loss and its gradient")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _short(value: int) -> str:
    return f"{value / 1000:.0f}k" if value >= 10_000 else str(value)
