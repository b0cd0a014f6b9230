"""A contact sheet: images with two lines of words below each."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import torch
from PIL import Image, ImageDraw, ImageFont

from semppl.core.drawing import picture, shortened
from semppl.data.images import Images, gather
from semppl.views.whole import whole_crop

_SIDE: Final = 128
_GAP: Final = 12
_LINE: Final = 15
_COLUMNS: Final = 8


class Tile(NamedTuple):
    """An image by its place in the data, and what is said of it."""

    place: int
    above: str
    below: str


def sheet(images: Images, tiles: Sequence[Tile]) -> Image.Image:
    """Eight in a row, each a square of 128 px."""
    pixels = gather(
        images[torch.tensor([tile.place for tile in tiles])], partial(whole_crop, _SIDE), workers=0
    )
    columns = min(_COLUMNS, len(tiles))
    cell_high, cell_wide = _SIDE + 2 * _LINE + _GAP, _SIDE + _GAP
    rows = -(-len(tiles) // columns)
    canvas = Image.new("RGB", (columns * cell_wide + _GAP, rows * cell_high + _GAP), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=11)
    for i, tile in enumerate(tiles):
        left, top = _GAP + i % columns * cell_wide, _GAP + i // columns * cell_high
        canvas.paste(picture(pixels[i], _SIDE), (left, top))
        for line, words in enumerate((tile.above, tile.below)):
            place = (left, top + _SIDE + 1 + line * _LINE)
            draw.text(place, shortened(words, font, _SIDE), fill="black", font=font)
    return canvas
