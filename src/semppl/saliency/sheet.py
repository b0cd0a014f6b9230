"""A contact sheet: images, what each estimator sees in them, what training will see. Shapes: H×W pixels."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from semppl.core.drawing import shortened
from semppl.core.rng import generator
from semppl.saliency.looking import Look
from semppl.saliency.making import THRESHOLD
from semppl.saliency.reading import Pixels, pixels_of, resized
from semppl.views.masking import Saliency, mask_background

SIDE: Final = 160
"""The long side of a tile."""
_GAP: Final = 8
_HEAD: Final = 24
_LINE: Final = 18
_CELL: Final = SIDE + _GAP
_FRAME: Final = "#bbbbbb"


class Tile(NamedTuple):
    """A picture and a line below it."""

    image_HW3: Pixels
    words: str


def row_of(look: Look, mask_HW: NDArray[np.bool_], seed: int) -> dict[str, Tile]:
    """The tiles of one image by the titles of their columns."""
    row = {"image": Tile(look.image_hw3, look.item.name)}
    for name, map_hw in look.maps.items():
        share = float((map_hw >= round(THRESHOLD * 255)).mean())
        row[name] = Tile(np.repeat(map_hw[..., None], 3, 2), _percent(share))
    row["masked view"] = masked_view(pixels_of(look.item.image), mask_HW, seed)
    return row


def masked_view(pixels_HW3: Pixels, mask_HW: NDArray[np.bool_], seed: int) -> Tile:
    """The whole image as training masks it, and whether it does so at all."""
    if mask_HW.shape != pixels_HW3.shape[:2]:
        mask_HW = resized(mask_HW.astype(np.uint8), (pixels_HW3.shape[0], pixels_HW3.shape[1])) > 0
    rule, share = Saliency(probability=1.0), float(mask_HW.mean())
    seen_1CHW = mask_background(
        torch.from_numpy(pixels_HW3).permute(2, 0, 1)[None],
        torch.from_numpy(np.ascontiguousarray(mask_HW))[None],
        rule,
        generator(seed, "masks/sheet"),
    )
    kept = share < rule.min_foreground
    words = f"{_percent(share)}, not masked (< {_percent(rule.min_foreground)})" if kept else _percent(share)
    return Tile(seen_1CHW[0].permute(1, 2, 0).contiguous().numpy(), words)


def drawn(rows: Sequence[dict[str, Tile]]) -> Image.Image:
    """All rows below each other, with the titles above them."""
    titles = list(rows[0])
    pictures = [[_tile(tile.image_HW3) for tile in row.values()] for row in rows]
    heights = [max(picture.height for picture in row) + _LINE + _GAP for row in pictures]
    sheet = Image.new("RGB", (_GAP + len(titles) * _CELL, _HEAD + sum(heights)), "white")
    draw = ImageDraw.Draw(sheet)
    bold, font = ImageFont.load_default(size=14), ImageFont.load_default(size=12)
    for column, title in enumerate(titles):
        draw.text((_GAP + column * _CELL, 4), shortened(title, bold, SIDE), fill="black", font=bold)
    top = _HEAD
    for row, tiles, height in zip(rows, pictures, heights, strict=True):
        for column, (tile, picture) in enumerate(zip(row.values(), tiles, strict=True)):
            left = _GAP + column * _CELL
            sheet.paste(picture, (left, top))
            frame = (left - 1, top - 1, left + picture.width, top + picture.height)
            draw.rectangle(frame, outline=_FRAME)
            words = shortened(tile.words, font, SIDE)
            draw.text((left, top + height - _LINE - _GAP + 2), words, fill="black", font=font)
        top += height
    return sheet


def _tile(image_HW3: Pixels) -> Image.Image:
    height, width = image_HW3.shape[:2]
    scale = SIDE / max(height, width)
    return Image.fromarray(resized(image_HW3, (max(round(height * scale), 1), max(round(width * scale), 1))))


def _percent(share: float) -> str:
    return f"{math.floor(100 * share + 1e-9)} %"  # 19.9 % is below 20 %
