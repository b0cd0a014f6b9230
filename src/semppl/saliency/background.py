"""Robust background detection: what is joined to the image's border along a smooth way is background.

Zhu, Liang, Wei, Sun: Saliency optimization from robust background detection, CVPR 2014.

Shapes: N regions.
"""

from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from semppl.saliency.graph import colour_distance, linked, touching
from semppl.saliency.superpixels import Superpixels, Values, stretched

_GEODESIC: Final = 10.0
"""σ of colours along a way, in units of CIELab."""
_CONNECTIVITY: Final = 1.0
_SPATIAL: Final = 0.25
_SMOOTHNESS: Final = 10.0
_LEAST_SMOOTHNESS: Final = 0.1


def background(regions: Superpixels) -> Values:
    """Saliency of each region, from 0 to 1."""
    distance_NN = colour_distance(regions)
    from_border_N = background_weight(regions, distance_NN)
    contrast_N = weighted_contrast(regions, distance_NN, from_border_N)
    return stretched(optimised(regions, distance_NN, from_border_N, contrast_N))


def background_weight(regions: Superpixels, distance_NN: NDArray[Any]) -> Values:
    """Near 1 for regions of which much lies on the border, for their size: eq. 1 to 5 of the paper.

    Steps that are common between neighbours in this image cost nothing, so that a smooth gradient is no way.
    """
    border_N = regions.border_N4.any(1)
    near_NN = touching(regions)
    step_NN = np.maximum(distance_NN - _common_step(distance_NN, near_NN), 0)
    way_NN = near_NN | np.outer(border_N, border_N)
    # a way that costs nothing is still a way: sparse graphs take 0 for none
    graph = csr_array(np.where(way_NN, np.maximum(step_NN, 1e-6), 0))
    span_NN = np.exp(-(np.minimum(shortest_path(graph, directed=False), 1e6) ** 2) / (2 * _GEODESIC**2))
    area_N, length_N = span_NN.sum(1), span_NN[:, border_N].sum(1)
    connectivity_N = length_N / np.sqrt(area_N)
    return 1 - np.exp(-(connectivity_N**2) / (2 * _CONNECTIVITY**2))


def weighted_contrast(regions: Superpixels, distance_NN: NDArray[Any], from_border_N: Values) -> Values:
    """How much a region differs from background near it; eq. 6 of the paper."""
    near_NN = np.exp(-(cdist(regions.place_N2, regions.place_N2) ** 2) / (2 * _SPATIAL**2))
    return stretched((distance_NN * near_NN) @ (from_border_N * regions.area_N))


def optimised(
    regions: Superpixels, distance_NN: NDArray[Any], from_border_N: Values, contrast_N: Values
) -> Values:
    """The least squares that want background 0, contrast 1, and neighbours of one colour equal; eq. 9."""
    common = _common_step(distance_NN, touching(regions))
    alike_NN = np.exp(-(np.maximum(distance_NN - common, 0) ** 2) / (2 * _SMOOTHNESS**2)) + _LEAST_SMOOTHNESS
    alike_NN *= linked(regions)
    foreground_N = np.where(contrast_N >= _otsu(contrast_N), contrast_N, 0)
    laplacian_NN = np.diag(alike_NN.sum(1)) - alike_NN
    system_NN = laplacian_NN + np.diag(from_border_N + foreground_N + 1e-6)
    return solve(system_NN, foreground_N, assume_a="pos")


def _common_step(distance_NN: NDArray[Any], near_NN: NDArray[np.bool_]) -> float:
    """What regions differ by from the neighbour that is most like them, in the mean."""
    nearest_N = np.where(near_NN, distance_NN, np.inf).min(1)
    known_N = nearest_N[np.isfinite(nearest_N)]
    return float(known_N.mean()) if len(known_N) else 0.0


def _otsu(values_N: Values) -> float:
    """The threshold that parts them best in two; OpenCV's is the last level below it."""
    levels = np.rint(255 * values_N).astype(np.uint8)
    threshold, _ = cv2.threshold(levels[None], 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return (float(threshold) + 0.5) / 255
