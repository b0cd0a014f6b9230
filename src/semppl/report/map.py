"""A second map of the images, where umap-learn is installed: neighbours stay neighbours.

Shapes: N images, P principal components of their features.
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import UserError

_FEWEST: Final = 8
_NEIGHBOURS: Final = 15
_HOW: Final = "pip install umap-learn"


def wanted(choice: Literal["auto", "on", "off"]) -> bool:
    """Whether there is to be one; asked for, it must be possible."""
    installed = find_spec("umap") is not None
    if choice == "on" and not installed:
        raise UserError(f"--umap on needs umap-learn: {_HOW}, or leave the flag out")
    return choice != "off" and installed


def umap_map(features_NP: NDArray[np.float32], seed: int = 0) -> NDArray[np.float32] | None:
    """[N, 2], always the same for the same features; None where there are too few images or it fails."""
    if len(features_NP) < _FEWEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what else could be installed, and of one thread
        umap: Any = import_module("umap")
        neighbours = min(_NEIGHBOURS, len(features_NP) - 1)
        try:
            found = umap.UMAP(n_neighbors=neighbours, random_state=seed).fit_transform(features_NP)
        except (ValueError, TypeError, RuntimeError, ArithmeticError):
            return None
    places_N2 = np.asarray(found, dtype=np.float32)
    return places_N2 if np.isfinite(places_N2).all() else None
