"""Probabilities that mean what they say: logits times one number, which held-out labels choose.

How sure a classifier is depends on its penalty, or on how long it was trained, and hardly on how often it is
right (docs/fit-measured.md has both, measured). One number for all classes leaves every answer as it is.

Shapes: N images whose label was held out, Y classes.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from torch import Tensor

from semppl.core.counted import counted
from semppl.evaluate.linear import IMPOSSIBLE

# logarithms of the number that are looked at, for one minimum may hide another; the best is then refined
_STEP: Final = 0.25
_FARTHEST: Final = 10.0


class Calibration(NamedTuple):
    """What logits are multiplied by, and what held-out labels said."""

    scale: float
    labels: int
    right: int
    before: float
    """Mean probability of the answers to these as it was."""
    after: float

    def describe(self) -> str:
        """In words."""
        return (
            f"probabilities: logits × {self.scale:.3g}, chosen on {counted(self.labels, 'label')} "
            f"as answered without having seen them ({self.right:,} right; mean probability "
            f"{100 * self.before:.1f} % before, {100 * self.after:.1f} % after)"
        )


def calibrate(logits_NY: Tensor, truth_N: Tensor) -> Calibration:
    """The scale with the least cross-entropy of all labels together, beside a normal prior of mean 0 and
    deviation 1 of its logarithm.

    So ten labels that are all right, which would have it infinite, leave it near 1, and it goes far where the
    labels say so.
    """
    logits_NY, truth_N = logits_NY.detach().cpu().double(), truth_N.cpu()
    if logits_NY.ndim != 2 or len(logits_NY) != len(truth_N) or not len(truth_N):
        raise ValueError(f"{tuple(logits_NY.shape)} logits do not fit {len(truth_N)} labels")
    finite = bool(logits_NY.isfinite().all())

    def loss(logarithm: float) -> float:
        log_chance_NY = (logits_NY * math.exp(logarithm)).log_softmax(1)
        own_N = log_chance_NY.gather(1, truth_N[:, None]).clamp(min=-IMPOSSIBLE)
        return logarithm**2 / 2 - float(own_N.sum())

    best = 0.0
    if finite:  # a network that diverged stays as it is
        tried = np.arange(-_FARTHEST, _FARTHEST + _STEP, _STEP).tolist()
        nearest = min(tried, key=loss)
        bounds = (nearest - _STEP, nearest + _STEP)
        best = float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    scale = math.exp(best)
    before, after = (
        float((logits_NY * each).softmax(1).amax(1).nan_to_num(0.0).mean()) for each in (1.0, scale)
    )
    return Calibration(scale, len(truth_N), int((logits_NY.argmax(1) == truth_N).sum()), before, after)
