"""One image: its content by a hash, its pixels, and these at the sizes that estimators and the network want.

No torch here: every process that reads would load it. Shapes: H×W pixels, h×w at work, s side of a square.
"""

import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from semppl.data.files import SHRUNK_ABOVE, check_file, read_pixels

Pixels = NDArray[np.uint8]

LONGEST: Final = 256
"""Estimators see an image with at most so many pixels on its long side."""
_LEAST: Final = 128
"""And with at least so many, because superpixels need pixels."""
_DIGEST: Final = 16


class Item(NamedTuple):
    """An image that is to get a mask."""

    name: str
    """As its owner knows it."""
    mask: str
    """The name of its mask's file."""
    image: str | Pixels
    """The path of a file, or pixels [H,W,3]."""


def content_of(image: str | Pixels) -> str:
    """A hash of a file's bytes, or of an array's shape and bytes, in hexadecimal digits."""
    if isinstance(image, str):
        with Path(image).open("rb") as file:
            return hashlib.file_digest(file, _new_hash).hexdigest()
    told = _new_hash()
    told.update(str(image.shape).encode())
    told.update(np.ascontiguousarray(image).data)
    return told.hexdigest()


def _new_hash() -> Any:
    return hashlib.blake2b(digest_size=_DIGEST)


def pixels_of(image: str | Pixels) -> Pixels:
    """[H,W,3]; a file that is no image is a UserError."""
    return read_pixels(image) if isinstance(image, str) else image


def full_size(image: str | Pixels, pixels_HW3: Pixels) -> tuple[int, int]:
    """Height and width that the mask must have: a very large file was made smaller while it was read."""
    height, width = pixels_HW3.shape[:2]
    # an image that was made smaller has more than a fifth of the pixels that are allowed
    if not isinstance(image, str) or height * width < SHRUNK_ABOVE // 8:
        return height, width
    facts = check_file(image)
    return (height, width) if facts.problem else (facts.height, facts.width)


def at_work(pixels_HW3: Pixels) -> Pixels:
    """As the estimators see it: [h,w,3] with a long side from 128 to 256 px and the same proportions."""
    height, width = pixels_HW3.shape[:2]
    longest = max(height, width)
    scale = min(max(longest, _LEAST), LONGEST) / longest
    return resized(pixels_HW3, (max(round(height * scale), 1), max(round(width * scale), 1)))


def square(pixels_HW3: Pixels, side: int) -> Pixels:
    """As the network sees it: [3,s,s], stretched."""
    return np.ascontiguousarray(resized(pixels_HW3, (side, side)).transpose(2, 0, 1))


def resized(values: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """An image or a map of another height and width: means of areas where it shrinks, bilinear where it
    grows.
    """
    smaller = min(values.shape[0], size[0]), min(values.shape[1], size[1])
    for wanted, way in ((smaller, cv2.INTER_AREA), (size, cv2.INTER_LINEAR)):
        if values.shape[:2] != wanted:
            values = np.asarray(cv2.resize(np.ascontiguousarray(values), wanted[::-1], interpolation=way))
    return values
