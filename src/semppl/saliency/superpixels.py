"""Superpixels: small regions of one colour, on which the hand-crafted estimators reason.

Shapes: H×W pixels, N regions, E pairs of neighbours.
"""

from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

VISIBLE: Final = 2.3
"""Distance of two colours in CIELab that an eye can just tell apart; a smaller range is noise, not colour."""
WANTED: Final = 250
"""Regions of an image: the estimators' papers take 200 to 300."""
_RULER: Final = 10.0
_ITERATIONS: Final = 10
_SMALLEST: Final = 25
"""Per cent of the usual area below which a region joins a neighbour."""
_LEAST_SIDE: Final = 4


@dataclass(frozen=True, eq=False)
class Superpixels:
    """The regions of an image, each of them present."""

    labels_HW: NDArray[np.int32]
    lab_N3: Values
    """Mean colour, L from 0 to 100."""
    rgb_N3: Values
    """Mean colour from 0 to 1."""
    place_N2: Values
    """Mean row and column from 0 to 1."""
    area_N: Values
    """Share of the pixels."""
    border_N4: NDArray[np.bool_]
    """Whether it touches the upper, lower, left and right edge of the image."""
    pairs_E2: NDArray[np.int64]
    """Neighbours, each pair once, the smaller number first."""

    def __len__(self) -> int:
        return len(self.area_N)


def superpixels(image_HW3: NDArray[np.uint8], wanted: int = WANTED) -> Superpixels:
    """About `wanted` of them, by SLIC in CIELab; an image of few pixels has fewer."""
    labels_HW = _segmented(image_HW3, wanted)
    num_regions = int(labels_HW.max()) + 1
    lab_HW3 = cv2.cvtColor(image_HW3.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    flat, count_N = labels_HW.ravel(), np.bincount(labels_HW.ravel(), minlength=num_regions)

    def mean(values_PX: NDArray[Any]) -> Values:
        sums = [np.bincount(flat, column, num_regions) for column in values_PX.reshape(len(flat), -1).T]
        return np.stack(sums, 1) / count_N[:, None]

    height, width = labels_HW.shape
    rows_HW, columns_HW = np.mgrid[:height, :width]
    border_N4 = np.zeros((num_regions, 4), bool)
    for side, edge in enumerate((labels_HW[0], labels_HW[-1], labels_HW[:, 0], labels_HW[:, -1])):
        border_N4[edge, side] = True
    return Superpixels(
        labels_HW=labels_HW,
        lab_N3=mean(lab_HW3),
        rgb_N3=mean(image_HW3 / 255),
        place_N2=mean(np.stack([(rows_HW + 0.5) / height, (columns_HW + 0.5) / width], 2)),
        area_N=count_N / labels_HW.size,
        border_N4=border_N4,
        pairs_E2=_neighbours(labels_HW, num_regions),
    )


def paint(values_N: NDArray[Any], regions: Superpixels) -> NDArray[np.float32]:
    """Each pixel with the value of its region."""
    return values_N.astype(np.float32)[regions.labels_HW]


def stretched(values: NDArray[Any]) -> NDArray[Any]:
    """From 0 to 1; what is all the same is 0: nothing stands out."""
    least, most = values.min(), values.max()
    return np.zeros_like(values) if most - least < 1e-9 else (values - least) / (most - least)


def _segmented(image_HW3: NDArray[np.uint8], wanted: int) -> NDArray[np.int32]:
    """Numbered from 0 without gaps. An image too narrow for SLIC, which fails there, is cut into strips."""
    height, width = image_HW3.shape[:2]
    side = round((height * width / wanted) ** 0.5)
    if min(height, width) < max(_LEAST_SIDE, side) or side < 2:
        return _strips(height, width, wanted)
    lab = cv2.cvtColor(image_HW3, cv2.COLOR_RGB2LAB)
    slic = cv2.ximgproc.createSuperpixelSLIC(lab, cv2.ximgproc.SLIC, side, _RULER)
    slic.iterate(_ITERATIONS)
    slic.enforceLabelConnectivity(_SMALLEST)
    numbers = np.unique(slic.getLabels(), return_inverse=True)[1]
    return numbers.reshape(height, width).astype(np.int32)


def _strips(height: int, width: int, wanted: int) -> NDArray[np.int32]:
    """Pieces of equal length of a way that winds through all pixels, so that none falls apart."""
    if height < width:
        return _strips(width, height, wanted).T
    way_HW = np.arange(height * width).reshape(height, width)
    way_HW[1::2] = way_HW[1::2, ::-1].copy()
    length = -(-height * width // wanted)
    return (way_HW // length).astype(np.int32)


def _neighbours(labels_HW: NDArray[np.int32], num_regions: int) -> NDArray[np.int64]:
    """Regions that share an edge of a pixel."""
    across = np.stack([labels_HW[:, :-1].ravel(), labels_HW[:, 1:].ravel()], 1)
    down = np.stack([labels_HW[:-1].ravel(), labels_HW[1:].ravel()], 1)
    pairs = np.concatenate([across, down]).astype(np.int64)
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], 1)
    codes = np.unique(pairs[:, 0] * num_regions + pairs[:, 1])
    return np.stack([codes // num_regions, codes % num_regions], 1)
