"""Metrics as lines of the table."""

from collections.abc import Sequence

from semppl.data.transfer import Metric
from semppl.evaluate.exam import mark_of
from semppl.evaluate.metrics import Metrics
from semppl.protocols.results import Number


def numbers_of(metrics: Metrics) -> list[Number]:
    """The lines of a protocol."""
    numbers = [number_called(metrics, "top-1", "top-1")]
    if len(metrics.per_class) > 5:
        numbers.append(Number("top-5", 100 * metrics.top5))
    numbers.append(number_called(metrics, "mean per class", "mean per class"))
    numbers.append(Number("calibration error", 100 * metrics.calibration_error))
    return numbers


def weakest(metrics: Metrics, classes: Sequence[str], most: int = 5) -> str:
    """The classes with the lowest accuracy, in words; nothing where all are right."""
    known = [
        (accuracy, name, count)
        for (count, accuracy), name in zip(metrics.per_class, classes, strict=True)
        if accuracy is not None and accuracy < 1
    ]
    worst = sorted(known)[:most]
    return ", ".join(f"{name} {accuracy:.0%} of {count:,}" for accuracy, name, count in worst)


def number_called(metrics: Metrics, metric: Metric, name: str) -> Number:
    """One of the two accuracies with its interval: Wilson's of the first, as everywhere, which has a width
    even where all answers are right; of the mean over classes, which has no formula, that of the bootstrap.
    """
    if metric == "top-1":
        mark = mark_of(metrics.top1, sum(count for count, _ in metrics.per_class))
        return Number(name, mark.accuracy, mark.low, mark.high)
    low, high = metrics.mean_per_class_interval
    return Number(name, 100 * metrics.mean_per_class, 100 * low, 100 * high)
