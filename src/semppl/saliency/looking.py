"""All maps of one image side by side, for people and for scores; estimated anew, for masks alone are kept.

No torch here. Shapes: h×w pixels at work, s side of the network's square.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import UserError
from semppl.saliency.baselines import BASELINES
from semppl.saliency.making import estimates, in_levels
from semppl.saliency.reading import Item, Pixels, at_work, full_size, pixels_of, resized, square
from semppl.saliency.sources import SOURCES

FUSED, CUT, REFINED = "fused", "fused, cut", "refined"

Refine = Callable[[Pixels], NDArray[np.uint8]]
"""The network: images [B,3,s,s] → maps [B,s,s], both 8-bit."""


class Look(NamedTuple):
    """One image and its maps, 8-bit."""

    item: Item
    size: tuple[int, int]
    """Height and width of its mask."""
    image_hw3: Pixels
    maps: dict[str, NDArray[np.uint8]]
    """By the names of the sources and baselines, [h,w]."""
    square_3ss: Pixels | None


def look_at(item: Item, side: int | None, *, baselines: bool) -> Look | None:
    """None for an image that cannot be read; `side` is the network's, if there is one."""
    try:
        pixels_HW3 = pixels_of(item.image)
    except UserError:
        return None
    image_hw3 = at_work(pixels_HW3)
    maps = dict(zip((*SOURCES, FUSED, CUT), estimates(image_hw3), strict=True))
    if baselines:
        maps |= {name: in_levels(estimate(image_hw3)) for name, estimate in BASELINES.items()}
    seen = None if side is None else square(pixels_HW3, side)
    return Look(item, full_size(item.image, pixels_HW3), image_hw3, maps, seen)


def with_refined(look: Look, refine: Refine | None) -> Look:
    """The network's map beside the others, behind that of the fusion."""
    if refine is None or look.square_3ss is None:
        return look
    size = look.image_hw3.shape[0], look.image_hw3.shape[1]
    refined = resized(refine(look.square_3ss[None])[0], size)
    maps = {}
    for name, map_hw in look.maps.items():
        maps[name] = map_hw
        if name == CUT:
            maps[REFINED] = refined
    return look._replace(maps=maps)
