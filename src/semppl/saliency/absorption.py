"""Absorbing Markov chain: a walk that ends at the border takes long from where nothing resembles the border.

Jiang, Zhang, Lu, Yang, Yang: Saliency detection via absorbing Markov chain, ICCV 2013.

Shapes: N regions, A absorbing copies of border regions.
"""

from typing import Final

import numpy as np
from scipy.linalg import solve

from semppl.saliency.graph import alike, linked
from semppl.saliency.superpixels import Superpixels, Values, stretched

_STRENGTH: Final = 10.0


def absorption(regions: Superpixels) -> Values:
    """Saliency of each region, from 0 to 1: the expected steps until the walk is absorbed.

    Each border region has an absorbing copy, which a walk may enter from that region and its neighbours in
    the graph. (I − Q) t = 1 is solved as (D − W) t = D 1, with D the degrees that count the copies.
    """
    border_A = np.flatnonzero(regions.border_N4.any(1))
    weights_NN = alike(regions, _STRENGTH)
    linked_NN = linked(regions)
    np.fill_diagonal(linked_NN, True)
    into_NA = (weights_NN * linked_NN)[:, border_A]
    np.fill_diagonal(linked_NN, False)
    inner_NN = weights_NN * linked_NN
    degree_N = inner_NN.sum(1) + into_NA.sum(1)
    time_N = solve(np.diag(degree_N + 1e-9) - inner_NN, degree_N)
    return stretched(time_N)
