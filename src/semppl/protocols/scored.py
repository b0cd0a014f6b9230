"""Metrics as lines of the table."""

from semppl.data.transfer import Metric
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


def number_called(metrics: Metrics, metric: Metric, name: str) -> Number:
    """One of the two accuracies, with its interval."""
    if metric == "top-1":
        value, (low, high) = metrics.top1, metrics.top1_interval
    else:
        value, (low, high) = metrics.mean_per_class, metrics.mean_per_class_interval
    return Number(name, 100 * value, 100 * low, 100 * high)
