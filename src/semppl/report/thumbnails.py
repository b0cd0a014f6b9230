"""Sheets of thumbnails as addresses that hold the picture itself, each once, and together not too large."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, UnidentifiedImageError

from semppl.report.exhibit import Tiles
from semppl.report.gaps import Damaged

_LARGEST: Final = 8192
_FORMATS: Final = ("WEBP", "PNG", "JPEG")
# (side, quality) that are tried one after the other where the sheets are too large as they are
_SMALLER: Final = ((64, 50), (48, 50), (32, 40), (24, 25))


@dataclass(frozen=True)
class Sheet:
    """A picture of columns × rows thumbnails."""

    address: str
    columns: int
    rows: int


@dataclass(frozen=True)
class Place:
    """Where a thumbnail is: for `background-position`, in per cent."""

    sheet: int
    x: float
    y: float


def load_sheets(folder: Path, tiles: Tiles, most_bytes: int) -> tuple[list[Sheet | None], list[str]]:
    """The sheets in order, None for those that are damaged, and what is wrong with these.

    Too many bytes are answered with a lower quality, then with smaller thumbnails.
    """
    read: dict[int, tuple[bytes, Image.Image]] = {}
    problems = []
    for number, name in enumerate(tiles.sheets):
        try:
            read[number] = _read(folder / name, tiles)
        except Damaged as error:
            problems.append(str(error))
    small = dict(zip(read, _small_enough(list(read.values()), tiles, most_bytes), strict=True))
    return [
        _sheet(small[number], read[number][1], tiles) if number in read else None
        for number in range(len(tiles.sheets))
    ], problems


def place(tile: int, tiles: Tiles, sheets: Sequence[Sheet | None]) -> Place | None:
    """Of a thumbnail; None where its sheet is damaged or too short."""
    number, inside = divmod(tile, tiles.per_sheet)
    sheet = sheets[number] if number < len(sheets) else None
    row, column = divmod(inside, tiles.columns)
    if sheet is None or row >= sheet.rows or column >= sheet.columns:
        return None
    return Place(number, _share(column, sheet.columns), _share(row, sheet.rows))


def _share(index: int, count: int) -> float:
    """CSS moves a background of `count` parts by index / (count − 1) of its free length."""
    return round(100 * index / (count - 1), 4) if count > 1 else 0.0


def _read(file: Path, tiles: Tiles) -> tuple[bytes, Image.Image]:
    """Decoded as a whole: a browser would say nothing of a file that was cut off."""
    try:
        raw = file.read_bytes()
        image = Image.open(io.BytesIO(raw), formats=_FORMATS)
        if max(image.size) > _LARGEST:
            raise Damaged(f"{file.name} is too large ({image.size[0]} × {image.size[1]} px)")
        if (
            image.size[0] % tiles.side
            or image.size[1] % tiles.side
            or image.size[0] > tiles.columns * tiles.side
        ):
            raise Damaged(f"{file.name} is no sheet of thumbnails of {tiles.side} px")
        image.load()
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError) as error:
        why = "there is none" if isinstance(error, FileNotFoundError) else type(error).__name__
        raise Damaged(f"{file.name} cannot be read ({why})") from error
    return raw, image


def _small_enough(
    read: Sequence[tuple[bytes, Image.Image]], tiles: Tiles, most_bytes: int
) -> list[tuple[str, bytes]]:
    """As they are, or the first of the smaller ways that is small enough, or the smallest."""
    coded = [(str(image.format), raw) for raw, image in read]
    for side, quality in _SMALLER:
        if sum(_inlined(raw) for _, raw in coded) <= most_bytes:
            break
        scale = min(side, tiles.side) / tiles.side
        coded = [("WEBP", _recoded(image, scale, quality)) for _, image in read]
    return coded


def _inlined(raw: bytes) -> int:
    """Bytes in base64."""
    return 4 * ((len(raw) + 2) // 3)


def _recoded(image: Image.Image, scale: float, quality: int) -> bytes:
    smaller = image.convert("RGB")
    if scale < 1:
        smaller = smaller.resize((round(image.width * scale), round(image.height * scale)))
    buffer = io.BytesIO()
    smaller.save(buffer, "WEBP", quality=quality, method=2)
    return buffer.getvalue()


def _sheet(coded: tuple[str, bytes], image: Image.Image, tiles: Tiles) -> Sheet:
    kind, raw = coded
    address = f"data:image/{kind.lower()};base64,{base64.b64encode(raw).decode()}"
    return Sheet(address, image.width // tiles.side, image.height // tiles.side)
