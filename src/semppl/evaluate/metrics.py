"""What answers are worth: accuracy in several senses, calibration, and how sure the numbers are.

Shapes: N images, Y classes, R resamples. Shares lie in [0, 1].
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from semppl.core.rng import stream

BINS: Final = 15
RESAMPLES: Final = 1000
_LARGEST: Final = 1e30


@dataclass(frozen=True)
class Metrics:
    """Of one set of answers."""

    top1: float
    top5: float
    """1 where there are at most five classes."""
    mean_per_class: float
    """Of the classes that occur."""
    calibration_error: float
    """Expected, 15 bins of equal width over the probability of the answer."""
    top1_interval: tuple[float, float]
    """95 %, by resampling images; without width where all are right or all wrong."""
    mean_per_class_interval: tuple[float, float]
    per_class: tuple[tuple[int, float | None], ...]
    """Images and accuracy of each class; None where a class does not occur."""
    confusion: tuple[tuple[int, ...], ...]
    """Rows are the truth, columns the answers."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "top1": self.top1,
            "top1_interval_95_bootstrap": list(self.top1_interval),
            "top5": self.top5,
            "mean_per_class": self.mean_per_class,
            "mean_per_class_interval_95_bootstrap": list(self.mean_per_class_interval),
            "expected_calibration_error": self.calibration_error,
            "per_class": [{"images": count, "accuracy": accuracy} for count, accuracy in self.per_class],
            "confusion": [list(row) for row in self.confusion],
        }


def measure_answers(logits_NY: Tensor, truth_N: Tensor, *, classes: int, seed: int = 0) -> Metrics:
    """All of them from logits; the seed decides the resamples. What is no number counts as 0: a network that
    diverged is wrong, and no reason to fail.
    """
    logits_NY, truth_N = logits_NY.detach().cpu().double(), truth_N.cpu()
    logits_NY = logits_NY.nan_to_num(nan=0.0, posinf=_LARGEST, neginf=-torch.inf)
    if logits_NY.shape != (len(truth_N), classes) or not len(truth_N):
        raise ValueError(
            f"{tuple(logits_NY.shape)} logits do not fit {len(truth_N)} labels of {classes} classes"
        )
    answer_N = logits_NY.argmax(1)
    right_N = answer_N == truth_N
    confusion_YY = confusion_matrix(answer_N, truth_N, classes)
    counts_Y, right_Y = confusion_YY.sum(1), confusion_YY.diagonal()
    per_class = tuple(
        (count, right / count if count else None)
        for count, right in zip(counts_Y.tolist(), right_Y.tolist(), strict=True)
    )
    top1, mean = bootstrap(right_N, truth_N, classes, seed=seed)
    return Metrics(
        top1=float(right_N.double().mean()),
        top5=top_k(logits_NY, truth_N, 5),
        mean_per_class=_mean_per_class(right_Y, counts_Y),
        calibration_error=expected_calibration_error(logits_NY.softmax(1), truth_N),
        top1_interval=top1,
        mean_per_class_interval=mean,
        per_class=per_class,
        confusion=tuple(tuple(row) for row in confusion_YY.tolist()),
    )


def top_k(logits_NY: Tensor, truth_N: Tensor, k: int) -> float:
    """Share of images whose class is among the k largest logits; of equal ones the lower class is larger."""
    if k >= logits_NY.shape[1]:
        return 1.0
    own_N1 = logits_NY.gather(1, truth_N[:, None])
    lower_NY = torch.arange(logits_NY.shape[1], device=logits_NY.device) < truth_N[:, None]
    before_N = ((logits_NY > own_N1) | ((logits_NY == own_N1) & lower_NY)).sum(1)
    return float((before_N < k).double().mean())


def confusion_matrix(answer_N: Tensor, truth_N: Tensor, classes: int) -> Tensor:
    """Images [Y, Y] by truth and answer."""
    return torch.bincount(truth_N * classes + answer_N, minlength=classes**2).view(classes, classes)


def expected_calibration_error(probability_NY: Tensor, truth_N: Tensor, bins: int = BINS) -> float:
    """|accuracy − mean probability of the answer| over bins of equal width, weighed by their images."""
    sure_N, answer_N = probability_NY.max(1)
    bin_N = (sure_N * bins).ceil().long().clamp(1, bins) - 1
    gap_B = torch.zeros(bins, dtype=torch.double)
    gap_B.index_add_(0, bin_N.cpu(), ((answer_N == truth_N).double() - sure_N.double()).cpu())
    return float(gap_B.abs().sum() / len(truth_N))


def bootstrap(
    right_N: Tensor, truth_N: Tensor, classes: int, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % intervals of the accuracy and of the mean over classes, from images drawn with replacement.

    Images of one class with the same mark are alike, so only their numbers are drawn: a multinomial with two
    cells for each class, which costs the same for any number of images.
    """
    cells_C = torch.bincount(2 * truth_N + right_N.long(), minlength=2 * classes).double()
    rng = np.random.default_rng(stream(seed, "bootstrap"))
    drawn = rng.multinomial(len(truth_N), (cells_C / cells_C.sum()).numpy(), size=resamples)
    cells_RC = torch.from_numpy(drawn)
    wrong_RY, right_RY = cells_RC.view(resamples, classes, 2).unbind(2)
    counts_RY = wrong_RY + right_RY
    accuracy_R = right_RY.sum(1).double() / len(truth_N)
    present_RY = counts_RY > 0
    share_RY = right_RY.double() / counts_RY.clamp(min=1)
    mean_R = (share_RY * present_RY).sum(1) / present_RY.sum(1)
    return _interval(accuracy_R), _interval(mean_R)


def _interval(values_R: Tensor) -> tuple[float, float]:
    low, high = values_R.quantile(torch.tensor([0.025, 0.975], dtype=torch.double)).tolist()
    return low, high


def _mean_per_class(right_Y: Tensor, counts_Y: Tensor) -> float:
    present_Y = counts_Y > 0
    return float((right_Y[present_Y].double() / counts_Y[present_Y]).mean())
