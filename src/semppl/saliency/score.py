"""The measures of salient object detection: the F-measure with β² = 0.3, and the mean absolute error.

Shapes: H×W pixels, 256 thresholds.
"""

from dataclasses import dataclass, field
from math import ceil, nan
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import UserError

Values = NDArray[np.float64]

BETA2: Final = 0.3
"""Precision counts for more than recall: the custom of the field."""
_LEVELS: Final = 256


@final
@dataclass(frozen=True)
class Scores:
    """How well maps agree with the truth over a set of images; each F is nan if no image has an object."""

    best_f: float
    """The usual "max F": precision and recall of each image at a threshold, each averaged over the images,
    and F of the two averages; the best over the 256 thresholds of an 8-bit map, one for the whole set."""
    best_threshold: float
    """The lowest at which `best_f` is reached, from 0 to 1."""
    f: float
    """The same at the threshold that was asked for."""
    mean_f: float
    """The other convention, at that threshold too: F of each image, averaged over the images."""
    error: float
    """Mean absolute error: mean over the pixels of an image of |map − truth|, averaged over the images."""
    images: int
    empty: int
    """Of them without an object: their recall is undefined, so they count for the error alone."""


@final
@dataclass
class Tally:
    """Adds up maps one at a time, so that a set need not fit into memory.

    A map is rounded to 8 bits before it is held against the thresholds 0/255 … 255/255 (its error is taken
    before), and a pixel is an object's if it reaches the threshold. Where none does, precision is 0.
    """

    _precision_256: Values = field(default_factory=lambda: np.zeros(_LEVELS))
    _recall_256: Values = field(default_factory=lambda: np.zeros(_LEVELS))
    _f_256: Values = field(default_factory=lambda: np.zeros(_LEVELS))
    _error: float = 0.0
    _images: int = 0
    _empty: int = 0

    def add_(self, map_HW: NDArray[Any], truth_HW: NDArray[np.bool_]) -> None:
        """One image: its map from 0 to 1, and where its objects are."""
        _check(map_HW, truth_HW)
        self._images += 1
        self._error += float(np.abs(map_HW - truth_HW).mean(dtype=np.float64))
        if not truth_HW.any():
            self._empty += 1
            return
        precision_256, recall_256 = _precision_recall(map_HW, truth_HW)
        self._precision_256 += precision_256
        self._recall_256 += recall_256
        self._f_256 += f_measure(precision_256, recall_256)

    def scores(self, threshold: float = 0.5) -> Scores:
        """Of all that was added."""
        if not 0 <= threshold <= 1:
            raise UserError(f"the threshold of a map must be from 0 to 1, not {threshold}")
        if not self._images:
            raise UserError("there is no image to score: give at least one with its mask")
        error, filled = self._error / self._images, self._images - self._empty
        if not filled:
            return Scores(nan, nan, nan, nan, error, self._images, self._empty)
        f_256 = f_measure(self._precision_256 / filled, self._recall_256 / filled)
        # a threshold that is a level in all but its last bits is that level
        best, asked = int(f_256.argmax()), ceil(threshold * (_LEVELS - 1) - 1e-9)
        return Scores(
            best_f=float(f_256[best]),
            best_threshold=best / (_LEVELS - 1),
            f=float(f_256[asked]),
            mean_f=float(self._f_256[asked] / filled),
            error=error,
            images=self._images,
            empty=self._empty,
        )


def f_measure(precision: Values, recall: Values) -> Values:
    """(1 + β²)PR / (β²P + R); 0 where both are."""
    below = BETA2 * precision + recall
    return (1 + BETA2) * precision * recall / np.where(below > 0, below, 1)


def _precision_recall(map_HW: NDArray[Any], truth_HW: NDArray[np.bool_]) -> tuple[Values, Values]:
    """At each threshold, from the numbers of pixels at each level: no threshold looks at the pixels again."""
    levels_HW = np.floor(map_HW * (_LEVELS - 1.0) + 0.5).astype(np.int64)
    counts = np.bincount((levels_HW + _LEVELS * truth_HW).ravel(), minlength=2 * _LEVELS)
    false_256, right_256 = counts.reshape(2, _LEVELS)[:, ::-1].cumsum(1)[:, ::-1]
    return right_256 / np.maximum(right_256 + false_256, 1), right_256 / right_256[0]


def _check(map_HW: NDArray[Any], truth_HW: NDArray[np.bool_]) -> None:
    if map_HW.shape != truth_HW.shape or not map_HW.size:
        raise UserError(f"a map of {map_HW.shape} pixels does not fit a mask of {truth_HW.shape}: resize one")
    if truth_HW.dtype != np.bool_:
        raise UserError(
            f"a mask must be true or false, not {truth_HW.dtype}: compare it with a threshold first"
        )
    least, most = float(map_HW.min()), float(map_HW.max())
    if not 0 <= least <= most <= 1:  # nan is neither
        raise UserError(f"a map must be from 0 to 1, but is from {least:g} to {most:g}: stretch it first")
