"""Masks of images as files: where they lie, what they are called, how they are read. No torch here.

A mask is True in the foreground. It is an image of the size of its image, as that is seen: 1-bit PNGs if we
made them, and whatever Pillow opens if the user did; from half of the full value on a pixel is foreground.

Shapes: M images, N of them, H×W pixels.
"""

import math
import os
import posixpath
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from semppl.core.errors import UserError
from semppl.data.files import SHRUNK_ABOVE, read_pixels
from semppl.data.paths import Paths

MARK: Final = "masks.json"
"""The file that tells a place of ours from a folder of the user's."""
NO_MASKS: Final = "none"
OWN_MASKS: Final = "own"
"""Those in the file of the images alone."""
ABSENT: Final = ": treated as absent"
"""How the words end that name a mask which is of no use."""

Size = tuple[int, int]
"""Height and width."""


def default_place(source: str, root: str | None) -> Path:
    """Beside the data; for a set that is known by its name, below its root or the working directory."""
    if source != "digits" and (source.endswith(".npz") or Path(source).is_dir()):
        path = Path(os.path.abspath(source))  # noqa: PTH100 - `.` and `..` have names, and links keep theirs
        return path.parent / f"{path.name}.masks"
    return Path(root or ".").absolute() / f"{source.lower()}.masks"


def folder_of(place: Path) -> Path:
    """Where the files begin: ours have a folder of their own beside what tells of them."""
    return place / "masks" if (place / MARK).is_file() else place


def array_mask_name(index: int) -> str:
    """The mask of an image that has no name but its number."""
    return f"{index:06d}.png"


def file_mask_name(path: str) -> str:
    """The mask of an image by its path below the data: with its suffix, for 1.jpg may lie beside 1.png."""
    return f"{path}.png"


def other_mask_name(path: str) -> str:
    """What people call it: its suffix replaced."""
    return f"{posixpath.splitext(path)[0]}.png"


def foreground_of(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """From half of the full value on, which is above 127 of 255, or 1 where nothing is above it; of colours
    their mean.
    """
    full = 255 if pixels_HWC.max(initial=0) > 1 else 1
    planes_CHW = np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))  # numpy is slow along so short an axis
    return np.asarray(planes_CHW.sum(0, dtype=np.int32) > full / 2 * len(planes_CHW))


def read_mask(path: str) -> NDArray[np.bool_]:
    """Bool [H, W], upright. A huge one comes smaller by a whole factor, as its image does."""
    return foreground_of(read_pixels(path))


def write_mask(path: Path, mask_HW: NDArray[np.bool_]) -> None:
    """A 1-bit PNG, there as a whole or not at all; folders are made as needed.

    It is not forced to the disk: thousands are written, and one that a crash loses is made again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.part")  # short: the longest of names has no room for more
    try:
        Image.fromarray(np.ascontiguousarray(mask_HW, dtype=np.bool_)).save(part, format="PNG", optimize=True)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def fits(mask: Size, image: Size) -> bool:
    """Whether a mask can be that of an image: of its size.

    A huge image is read smaller by a factor that depends on its format, so there the same shape is enough, to
    the pixel.
    """
    if mask == image:
        return True
    small, large = sorted((mask, image), key=math.prod)
    long = int(large[1] > large[0])
    short = large[1 - long] * small[long] / large[long]
    return math.prod(small) > SHRUNK_ABOVE // 4 and abs(short - small[1 - long]) <= 1


def fitted(mask_HW: NDArray[np.bool_], size: Size) -> NDArray[np.bool_] | None:
    """The mask for an image of that size, or None if it is that of another one."""
    height, width = mask_HW.shape
    if not fits((height, width), size):
        return None
    if (height, width) == size:
        return mask_HW
    levels = Image.fromarray(mask_HW.astype(np.uint8) * 255)
    return np.asarray(levels.resize(size[::-1], Image.Resampling.BOX)) > 127


def in_words(size: Size) -> str:
    """As people say it: width×height."""
    return f"{size[1]}×{size[0]}"


@final
@dataclass(frozen=True)
class MaskFiles:
    """The masks of M images; reading them is left to those who need one."""

    root: Path
    paths: Paths
    """Below the folder; empty for an image that has none."""

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, index_N: NDArray[np.integer[Any]]) -> "MaskFiles":
        """Those of some images, in the order asked for."""
        return MaskFiles(self.root, self.paths.take(index_N))

    @property
    def present_N(self) -> NDArray[np.int64]:
        """The images that have one."""
        return np.flatnonzero(np.diff(self.paths.offsets))

    def path(self, index: int) -> str | None:
        """Where the mask of an image lies."""
        path = self.paths[index]
        return str(self.root / path) if path else None


def read_or_absent(path: str, size: Size) -> tuple[NDArray[np.bool_] | None, str]:
    """The mask of an image of that size, or what is wrong with it.

    Masks were looked at before; one that goes bad during hours of training must not end them.
    """
    try:
        mask_HW = read_mask(path)
    except UserError as error:
        return None, f"mask {error}{ABSENT}"
    mask = fitted(mask_HW, size)
    if mask is not None:
        return mask, ""
    height, width = mask_HW.shape
    return None, f"mask {path}: {in_words((height, width))}, the image is {in_words(size)}{ABSENT}"
