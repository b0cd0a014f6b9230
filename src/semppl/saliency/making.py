"""What a process does for some images: read them, estimate what stands out, write their masks.

No torch here. Shapes: K sources, H×W pixels, h×w at work, B images, s side of the network's square.
"""

import errno
import os
from pathlib import Path
from typing import Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from semppl.core.errors import UserError
from semppl.data.masks import write_mask
from semppl.saliency.cut import cut
from semppl.saliency.reading import Item, Pixels, at_work, content_of, full_size, pixels_of, resized, square
from semppl.saliency.sources import fused, source_maps

THRESHOLD: Final = 0.5
"""A pixel is foreground where the map has at least this."""
_HALF: Final = 128
"""The same in the levels of an 8-bit map."""
TOO_LONG: Final = "its name is too long for that of a mask: shorten it"
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Outcome(NamedTuple):
    """What became of an image."""

    name: str
    mask: str
    content: str = ""
    height: int = 0
    """0: its content is known already, and nothing was done."""
    width: int = 0
    foreground: float = 0.0
    """Share of the pixels."""
    problem: str = ""
    """Why there is no mask."""


class Part(NamedTuple):
    """Some images of which those with a known content need no work."""

    items: list[Item]
    masks: str
    """Folder."""
    known: str | None
    """File with the contents that have a mask, sorted; see `Index.known`."""


class Squares(NamedTuple):
    """Images as the network wants them, and the outcomes of the others."""

    asked: list[Outcome]
    images_B3ss: NDArray[np.uint8]
    others: list[Outcome]
    masks: str


class Answers(NamedTuple):
    """The network's maps of the images that were asked about."""

    asked: list[Outcome]
    maps_Bss: NDArray[np.uint8]
    others: list[Outcome]
    masks: str


def one_thread() -> None:
    """There is a process for each core: with more threads than cores they wait for each other most of the
    time.
    """
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # for libraries that are loaded later
    cv2.setNumThreads(1)
    threadpool_limits(1)


def estimates(image_hw3: Pixels) -> NDArray[np.uint8]:
    """The maps of all sources, their fusion, and last the fusion cut along edges, 8-bit [K+2,h,w]."""
    maps_Khw = source_maps(image_hw3)
    fused_hw = fused(maps_Khw)
    return in_levels(np.stack([*maps_Khw, fused_hw, cut(image_hw3, fused_hw)]))


def in_levels(maps: NDArray[np.float32]) -> NDArray[np.uint8]:
    """From 0…1 to 0…255; what is no number counts as background."""
    known = np.nan_to_num(maps, nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(known, 0, 1) * 255).astype(np.uint8)


def foreground(map_hw: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.bool_]:
    """The mask [H,W] of an image of this size."""
    return np.asarray(resized(map_hw, size) >= _HALF)


def mask_part(part: Part) -> list[Outcome]:
    """Masks by the fused estimates, cut along edges."""
    known = None if part.known is None else np.load(part.known, mmap_mode="r")
    outcomes = []
    for item in part.items:
        outcome, pixels_HW3 = _opened(item, known)
        if pixels_HW3 is not None:
            outcome = _written(outcome, estimates(at_work(pixels_HW3))[-1], part.masks)
        outcomes.append(outcome)
    return outcomes


def read_part(part: Part, side: int) -> Squares:
    """The first half of the work where a network gives the maps."""
    known = None if part.known is None else np.load(part.known, mmap_mode="r")
    asked, others, images = list[Outcome](), list[Outcome](), list[Pixels]()
    for item in part.items:
        outcome, pixels_HW3 = _opened(item, known)
        if pixels_HW3 is None:
            others.append(outcome)
        else:
            asked.append(outcome)
            images.append(square(pixels_HW3, side))
    images_B3ss = np.stack(images) if images else np.zeros((0, 3, side, side), np.uint8)
    return Squares(asked, images_B3ss, others, part.masks)


def write_part(answers: Answers) -> list[Outcome]:
    """The second half."""
    written = [
        _written(outcome, map_ss, answers.masks)
        for outcome, map_ss in zip(answers.asked, answers.maps_Bss, strict=True)
    ]
    return [*answers.others, *written]


def _opened(item: Item, known: NDArray[np.bytes_] | None) -> tuple[Outcome, Pixels | None]:
    """Pixels, unless the content is known or no image."""
    try:
        content = content_of(item.image)
    except OSError:
        content = ""  # reading says what is wrong
    if content and known is not None and _among(content, known):
        return Outcome(item.name, item.mask, content), None
    try:
        pixels_HW3 = pixels_of(item.image)
    except UserError as error:
        return Outcome(item.name, item.mask, problem=str(error).removeprefix(f"{item.image}: ")), None
    return Outcome(item.name, item.mask, content, *full_size(item.image, pixels_HW3)), pixels_HW3


def _among(content: str, known: NDArray[np.bytes_]) -> bool:
    place = int(np.searchsorted(known, content.encode()))
    return place < len(known) and known[place] == content.encode()


def _written(outcome: Outcome, map_hw: NDArray[np.uint8], masks: str) -> Outcome:
    mask_HW = foreground(map_hw, (outcome.height, outcome.width))
    path = Path(masks) / outcome.mask
    try:
        write_mask(path, mask_HW)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return Outcome(outcome.name, outcome.mask, problem=TOO_LONG)
    return outcome._replace(foreground=float(mask_HW.mean()))
