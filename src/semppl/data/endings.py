"""Whether an image file is all there, told by how it ends: no pixel is decoded. No torch here."""

import os
import struct
from collections.abc import Callable, Mapping
from typing import IO, Final

# the marker at a file's end may have other bytes behind it, but rarely more than these
_TAIL: Final = 4096


def _jpeg_ends(file: IO[bytes], length: int) -> bool:
    """An end-of-image marker behind the header, which may have one of its own in its thumbnail."""
    file.seek(max(file.tell(), length - _TAIL))
    return b"\xff\xd9" in file.read()


def _png_ends(file: IO[bytes], length: int) -> bool:
    """A chain of chunks to the last one, without notes behind the pixels that might turn the image."""
    file.seek(8)
    seen_pixels = False
    while file.tell() < length and len(head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        if kind == b"IEND":
            return seen_pixels
        seen_pixels = seen_pixels or kind == b"IDAT"
        if seen_pixels and kind in {b"eXIf", b"iTXt", b"zTXt"}:
            return False
        file.seek(size + 4, os.SEEK_CUR)
    return False


def _gif_ends(file: IO[bytes], length: int) -> bool:
    """The trailer behind the end of a block."""
    file.seek(max(0, length - _TAIL))
    return file.read().rstrip(b"\0").endswith(b"\0;")


def _webp_ends(file: IO[bytes], length: int) -> bool:
    file.seek(4)
    return int.from_bytes(file.read(4), "little") + 8 <= length


def _bmp_ends(file: IO[bytes], length: int) -> bool:
    """The whole length that the header names; some writers leave it at nothing."""
    file.seek(2)
    return 54 < int.from_bytes(file.read(4), "little") <= length


ENDS: Final[Mapping[str, Callable[[IO[bytes], int], bool]]] = {
    "JPEG": _jpeg_ends,
    "MPO": _jpeg_ends,
    "PNG": _png_ends,
    "GIF": _gif_ends,
    "WEBP": _webp_ends,
    "BMP": _bmp_ends,
}
"""By Pillow's name of the format: the file, opened behind its header, and its length."""
