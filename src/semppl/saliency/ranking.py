"""Manifold ranking: regions are ranked by how they relate to each side of the border, then to what is left.

Yang, Zhang, Lu, Ruan, Yang: Saliency detection via graph-based manifold ranking, CVPR 2013.

Shapes: N regions, S sides of the image.
"""

from typing import Final

import numpy as np
from scipy.linalg import inv

from semppl.saliency.graph import alike, linked
from semppl.saliency.superpixels import Superpixels, Values, stretched

_STRENGTH: Final = 10.0
"""1/σ² of the paper, for colours in units of the largest distance."""
_ALPHA: Final = 0.99


def ranking(regions: Superpixels) -> Values:
    """Saliency of each region, from 0 to 1."""
    if len(regions) < 2:
        return np.zeros(len(regions))
    relation_NN = relation(regions)
    first_N = np.ones(len(regions))
    for side_N in regions.border_N4.T:
        first_N *= 1 - stretched(relation_NN @ side_N)
    first_N = stretched(first_N)
    seeds_N = first_N > first_N.mean()
    return stretched(relation_NN @ seeds_N) if seeds_N.any() else first_N


def relation(regions: Superpixels) -> Values:
    """(D − αW)⁻¹ without its diagonal: a query does not vote for itself."""
    weights_NN = alike(regions, _STRENGTH) * linked(regions)
    degree_N = weights_NN.sum(1)
    relation_NN = inv(np.diag(degree_N + 1e-9) - _ALPHA * weights_NN)
    np.fill_diagonal(relation_NN, 0)
    return relation_NN
