"""The hand-crafted sources by name, and their maps of an image. Shapes: K sources, H×W pixels."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.saliency.absorption import absorption
from semppl.saliency.background import background
from semppl.saliency.graph import colour_distance
from semppl.saliency.ranking import ranking
from semppl.saliency.reconstruction import reconstruction
from semppl.saliency.superpixels import VISIBLE, Superpixels, Values, paint, superpixels

SOURCES: Final[dict[str, Callable[[Superpixels], Values]]] = {
    "background": background,
    "ranking": ranking,
    "absorption": absorption,
    "reconstruction": reconstruction,
}


def source_maps(image_HW3: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[K,H,W] from 0 to 1, in the order of SOURCES; all reason on the same superpixels.

    In an image of one colour nothing stands out; each source would stretch its noise to a map.
    """
    regions = superpixels(image_HW3)
    if colour_distance(regions).max() < VISIBLE:
        return np.zeros((len(SOURCES), *image_HW3.shape[:2]), np.float32)
    return np.stack([paint(source(regions), regions) for source in SOURCES.values()])


def fused(maps_KHW: NDArray[np.float32]) -> NDArray[np.float32]:
    """Their mean: where they disagree none is known to be better."""
    return maps_KHW.mean(0)
