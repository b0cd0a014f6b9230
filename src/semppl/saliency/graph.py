"""What the graph estimators share: which regions touch, and how alike they are. Shapes: N regions.

All matrices are full: at 250 regions a solver for sparse ones takes longer than the arithmetic.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from semppl.saliency.superpixels import Superpixels, Values


def touching(regions: Superpixels) -> NDArray[np.bool_]:
    """Regions with an edge in common."""
    return symmetric(regions.pairs_E2, len(regions))


def symmetric(pairs_E2: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """A matrix of pairs."""
    linked_NN = np.zeros((size, size), bool)
    linked_NN[pairs_E2[:, 0], pairs_E2[:, 1]] = True
    return linked_NN | linked_NN.T


def linked(regions: Superpixels) -> NDArray[np.bool_]:
    """Regions that touch, that touch the same one, or that both lie on the image's border.

    The closed-loop graph of manifold ranking (Yang et al., 2013), which absorption takes over.
    """
    near_NN = touching(regions)
    border_N = regions.border_N4.any(1)
    two_steps = (near_NN.astype(np.float32) @ near_NN.astype(np.float32)) > 0
    linked_NN = near_NN | two_steps | np.outer(border_N, border_N)
    np.fill_diagonal(linked_NN, False)
    return linked_NN


def alike(regions: Superpixels, strength: float) -> Values:
    """exp(−strength · distance), the distance of mean colours relative to the largest one in the image."""
    distance_NN = colour_distance(regions)
    return np.exp(-strength * distance_NN / max(float(distance_NN.max()), 1e-9))


def colour_distance(regions: Superpixels) -> NDArray[Any]:
    """Between mean colours, in CIELab."""
    return cdist(regions.lab_N3, regions.lab_N3)
