"""A contact sheet of all corruptions of one image at all severities. Shapes: H×W pixels."""

from typing import Final

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as V

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.corruptions.corrupt import corrupt
from semppl.corruptions.filters import REFERENCE

_GAP: Final = 4
_NAME: Final = 130
_HEAD: Final = 20


def corruption_sheet(image_3HW: Tensor, *, side: int = 96, seed: int = 0) -> Image.Image:
    """A row for each corruption: its name, the clean image, severities 1 to 5.

    The middle square is corrupted at 224 px, or at `side` if that is more, and then shown `side` px large.
    """
    shorter = min(image_3HW.shape[-2:])
    work = max(REFERENCE, side)
    square_3ss = V.center_crop(image_3HW, [shorter, shorter])
    clean_3ss = V.resize(square_3ss, [work, work], InterpolationMode.BICUBIC, antialias=True)
    cell = side + _GAP
    columns = ("clean", *(str(severity) for severity in SEVERITIES))
    size = (_NAME + len(columns) * cell, _HEAD + len(CORRUPTIONS) * cell)
    sheet = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=13)
    for column, words in enumerate(columns):
        draw.text((_NAME + column * cell, 2), words, fill="black", font=font)
    for row, name in enumerate(CORRUPTIONS):
        top = _HEAD + row * cell
        draw.text((_GAP, top + side // 2 - 8), name, fill="black", font=font)
        tiles = (clean_3ss, *(corrupt(clean_3ss, name, severity, seed=seed) for severity in SEVERITIES))
        for column, tile_3ss in enumerate(tiles):
            sheet.paste(_picture(tile_3ss, side), (_NAME + column * cell, top))
    return sheet


def _picture(image_3ss: Tensor, side: int) -> Image.Image:
    small_3ss = V.resize(image_3ss, [side, side], InterpolationMode.BICUBIC, antialias=True)
    return V.to_pil_image(small_3ss)
