"""What the network learns from: an image and the sources' maps of it, kept so that they are estimated once.

No torch here. Shapes: K sources, s side of the network's square.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from semppl.core.errors import UserError
from semppl.saliency.making import in_levels
from semppl.saliency.reading import Item, Pixels, at_work, content_of, pixels_of, resized, square
from semppl.saliency.sources import SOURCES, source_maps


class Example(NamedTuple):
    """One image, 8-bit."""

    image_3ss: NDArray[np.uint8]
    maps_Kss: NDArray[np.uint8]


def example_part(items: list[Item], folder: str, side: int) -> list[Example | None]:
    """None for an image that cannot be read."""
    return [_example(item, Path(folder), side) for item in items]


def _example(item: Item, folder: Path, side: int) -> Example | None:
    try:
        content = content_of(item.image)
        pixels_HW3 = pixels_of(item.image)
    except (OSError, UserError):
        return None
    file = folder / f"{content}.png"
    maps_Kss = _kept(file, side)
    if maps_Kss is None:
        maps_Kss = _estimated(pixels_HW3, side)
        _keep(file, maps_Kss)
    return Example(square(pixels_HW3, side), maps_Kss)


def _estimated(pixels_HW3: Pixels, side: int) -> NDArray[np.uint8]:
    maps_Khw = in_levels(source_maps(at_work(pixels_HW3)))
    return np.stack([resized(map_hw, (side, side)) for map_hw in maps_Khw])


def _kept(file: Path, side: int) -> NDArray[np.uint8] | None:
    """The maps of one image below each other, unless they are damaged or of another kind."""
    with suppress(OSError, ValueError, SyntaxError), Image.open(file) as image:
        maps = np.array(image)
        if maps.dtype == np.uint8 and maps.shape == (len(SOURCES) * side, side):
            return maps.reshape(len(SOURCES), side, side)
    return None


def _keep(file: Path, maps_Kss: NDArray[np.uint8]) -> None:
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    Image.fromarray(maps_Kss.reshape(-1, maps_Kss.shape[-1])).save(part, format="PNG", compress_level=1)
    part.replace(file)
