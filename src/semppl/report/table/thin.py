"""What is kept of files that grow: lines of metrics from which a table says the same, and results without
large matrices.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from semppl.report.curves import Metrics, bins
from semppl.report.lenient import finite
from semppl.report.trust import last_epoch

# so few lines are kept as they are
_MOST: Final = 60
# of more lines so many are kept for a curve, beside those that a number of the table needs
_CURVE: Final = 50
# a confusion matrix of 100 classes has 30 kB, one of 1,000 has 3 MB
_LARGE: Final = 200_000


def thinned(metrics: Metrics) -> Metrics:
    """About 60 lines: the first and the last, all of the last epoch, and others evenly spaced.

    Exactly the same are the last line and the pseudo-labels of the last epoch. A run whose last epoch is long
    keeps more lines, one whose last lines do not know their pseudo-labels all.
    """
    if len(metrics) <= _MOST:
        return metrics
    kept = {0, *_spread(range(len(metrics)), _CURVE), *_of_the_last_epoch(metrics)}
    rows = [metrics[place] for place in sorted(kept)]
    return rows if last_epoch(rows) == last_epoch(metrics) else metrics


def _spread(places: Sequence[int], count: int) -> list[int]:
    """As many of them, evenly spaced, the last among them."""
    return [places[part.stop - 1] for part in bins(len(places), count)]


def _of_the_last_epoch(metrics: Metrics) -> Iterable[int]:
    """Places of its lines."""
    step, epoch = int(metrics[-1]["step"]), finite(metrics[-1].get("epoch"))
    steps = round(step / epoch) if epoch else 0
    return (i for i, row in enumerate(metrics) if int(row["step"]) > step - steps)


def kept_lines(text: str, metrics: Metrics) -> str:
    """Lines of metrics.jsonl as they are; damaged ones, too, for a page counts them."""
    steps = {int(row["step"]) for row in metrics}
    lines = (line for line in text.split("\n") if line.strip())
    return "".join(f"{line}\n" for line in lines if (step := _step(line)) is None or step in steps)


def _step(line: str) -> int | None:
    """None where `read_metrics` cannot read it either."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def lighter(text: str, most: int = _LARGE) -> str:
    """A result as it is; a large one without its confusion matrices, which no table shows."""
    if len(text) <= most or '"confusion"' not in text:
        return text
    try:
        return json.dumps(json.loads(text, object_hook=_without_matrix), indent=1) + "\n"
    except (ValueError, RecursionError):
        return text


def _without_matrix(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != "confusion"}
