"""Image files: their pixels, and whether they can be read. No torch here: it would cost workers much memory.

Shapes: H×W pixels.
"""

import errno
import math
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from semppl.core.errors import UserError
from semppl.data.endings import ENDS
from semppl.data.listing import SUFFIXES, list_images

__all__ = [
    "FLEETING",
    "MOST_PIXELS",
    "SHRUNK_ABOVE",
    "SUFFIXES",
    "FileFacts",
    "check_file",
    "image_files",
    "pixels_of",
    "read_pixels",
    "told_apart",
]

MOST_PIXELS: Final = 2**28
"""An image that claims more is refused before a pixel is read."""
SHRUNK_ABOVE: Final = 2**24
"""An image with more pixels is made smaller while it is read."""
FLEETING: Final = ("broken link", "cannot be read", "no permission", "no such file", "too little memory")
"""How problems begin that may go away while the file stays as it is."""

_UNREADABLE: Final = ": not a readable image ("
_FORMATS: Final = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF")
_BEGINNINGS: Final = (b"\xff\xd8\xff", b"\x89PNG", b"RIFF", b"II*\0", b"MM\0*", b"BM", b"GIF8")
_FAILURES: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    Image.DecompressionBombError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""All that Pillow has been seen to raise for a damaged file."""
_BLENDING: Final = frozenset({"L", "LA", "RGB", "RGBA", "CMYK", "I", "F"})
_ORIENTATION: Final = 0x0112
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LYING: Final = frozenset({5, 6, 7, 8})


@dataclass(frozen=True)
class FileFacts:
    """The size of an image as it is seen, or what is wrong with its file."""

    width: int
    height: int
    problem: str = ""


def image_files(root: Path) -> list[str]:
    """Paths of all images below a folder, sorted, each with the folder in front."""
    return [str(root / path) for path in list_images(root).paths]


def read_pixels(path: str) -> NDArray[np.uint8]:
    """uint8 [H, W, 3], upright, in memory pixel by pixel.

    JPEG, PNG, WebP, TIFF, BMP, and the first frame of a GIF, whatever the suffix says. Transparency lies over
    white. 16-bit integers lose their lower byte, but for those that have no other, and floats are stretched
    from their least to their greatest.
    An image of more than `SHRUNK_ABOVE` pixels comes smaller by a whole factor, so that the memory of workers
    stays bounded: a JPEG shrinks while it is decoded, others afterwards.
    """
    try:
        with _OUR_RULES:
            return np.array(_decode(path)[0])
    except _FAILURES as error:
        raise UserError(f"{path}{_UNREADABLE}{_reason(error, path)})") from error


def told_apart(problem: str) -> tuple[str, str]:
    """The file that `read_pixels` could not read, and the reason."""
    path, _, reason = problem.partition(_UNREADABLE)
    return path, reason.removesuffix(")")


def pixels_of(image: Image.Image) -> NDArray[np.uint8]:
    """The same of an image that Pillow has opened already."""
    with _OUR_RULES:
        return np.array(_seen(image)[0])


def check_file(path: str) -> FileFacts:
    """Whether a file is an image that is all there; never raises.

    The header is read, and the end of the file is looked for. Only where that leaves a doubt are the pixels
    decoded. So damage in the middle of a file is not seen here.
    """
    try:
        with _OUR_RULES:
            width, height = _quick_size(path) or _decode(path)[1]
            return FileFacts(width, height)
    except _FAILURES as error:
        return FileFacts(0, 0, _reason(error, path))


def _decode(path: str) -> tuple[Image.Image, tuple[int, int]]:
    """The upright image in RGB, and the size that it has in its file, upright too."""
    with Image.open(path, formats=_FORMATS) as image:
        full = image.size
        if (factor := _factor(full)) > 1:
            scale = 1 << (factor - 1).bit_length()  # a JPEG's are powers of two
            image.draft(None, (max(1, full[0] // scale), max(1, full[1] // scale)))
        image.load()
        full = full if image.size != full[::-1] else image.size  # a TIFF turns itself
        rgb, orientation = _seen(image)
    return rgb, _upright(full, orientation)


def _seen(image: Image.Image) -> tuple[Image.Image, int]:
    """In RGB, not too large, upright; and how it lay."""
    orientation = _orientation(image.getexif)
    rgb = _shrunk(_in_rgb(_shrunk(image)))
    return rgb.transpose(_TURNS[orientation]) if orientation in _TURNS else rgb, orientation


def _factor(size: tuple[int, int]) -> int:
    return math.ceil(math.sqrt(size[0] * size[1] / SHRUNK_ABOVE))


def _shrunk(image: Image.Image) -> Image.Image:
    """Smaller if it must be and can be: neither palettes nor colours that mean nothing have a mean."""
    factor = _factor(image.size)
    blends = image.mode in _BLENDING and "transparency" not in image.info
    return image.reduce(factor) if factor > 1 and blends else image


def _orientation(read_exif: Callable[[], Image.Exif]) -> int:
    """As EXIF has it; notes that cannot be read make no image unreadable."""
    try:
        found = read_exif().get(_ORIENTATION)
    except _FAILURES:
        return 1
    return found if isinstance(found, int) else 1


def _upright(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    return size[::-1] if orientation in _LYING else size


def _in_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        with np.errstate(all="ignore"):  # a float may be no number
            image = Image.fromarray(_in_bytes(np.asarray(image), image.mode))
    elif image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.new("RGB", image.size, "white")
        image.paste(clear, mask=clear)
    return image if image.mode == "RGB" else image.convert("RGB")


def _in_bytes(values: NDArray[Any], mode: str) -> NDArray[np.uint8]:
    """Deep grey in 8 bits."""
    if mode == "F":
        known = values[np.isfinite(values)].astype(np.float64)
        least, most = (known.min(), known.max()) if len(known) else (0.0, 0.0)
        level = np.nan_to_num(values.astype(np.float64), nan=least, posinf=most, neginf=least) - least
        return np.rint(level * (255 / (most - least or 1))).astype(np.uint8)
    bits = int(values.max()).bit_length()
    return np.clip(values >> (0 if bits <= 8 else max(16, bits) - 8), 0, 255).astype(np.uint8)


def _quick_size(path: str) -> tuple[int, int] | None:
    """The upright size, if header and end are as they should be."""
    with Path(path).open("rb") as file, Image.open(file, formats=_FORMATS) as image:
        length = os.fstat(file.fileno()).st_size
        ends = ENDS.get(image.format or "")
        if ends is None or not ends(file, length):
            return None
        # Pillow would decode a PNG to look for notes behind its pixels; `ends` has found none there
        return _upright(image.size, _orientation(lambda: Image.Image.getexif(image)))


def _reason(error: Exception, path: str) -> str:
    """In few words what is wrong with a file."""
    words = {
        Image.DecompressionBombError: f"more than {MOST_PIXELS // 10**6} million pixels",
        EOFError: "truncated",
        MemoryError: "too little memory",
        PermissionError: "no permission",
        FileNotFoundError: "broken link" if Path(path).is_symlink() else "no such file",
    }
    if type(error) in words:
        return words[type(error)]
    if isinstance(error, UnidentifiedImageError):
        return _unidentified(path)
    if isinstance(error, OSError) and error.errno is not None:
        return "broken link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
    text = " ".join(str(error).split())
    return "truncated" if "truncated" in text.lower() else text[:100] or type(error).__name__


def _unidentified(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            head = file.read(8)
    except OSError:  # gone meanwhile
        return "not an image"
    if not head:
        return "empty file"
    return "damaged header" if head.startswith(_BEGINNINGS) else "not an image"


@final
class _OurRules:
    """Pillow with our limit and without its warnings, as long as any thread is inside."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit, self._warnings = Image.MAX_IMAGE_PIXELS, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                # Pillow warns above its limit and refuses above twice as much
                self._limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, MOST_PIXELS // 2
                self._warnings = warnings.catch_warnings()
                self._warnings.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._warnings.__exit__(None, None, None)
                Image.MAX_IMAGE_PIXELS = self._limit


_OUR_RULES: Final = _OurRules()
