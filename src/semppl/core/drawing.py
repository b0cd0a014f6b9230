"""Images and words on a sheet: what all pictures of results share. Shapes: H×W pixels."""

from typing import Final

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

RIGHT, WRONG, NEUTRAL = "#1a9850", "#d73027", "#000000"
"""Frames of what is of the right class, of another one, or not judged."""
FRAME: Final = 3
Font = ImageFont.ImageFont | ImageFont.FreeTypeFont


def picture(image_3HW: Tensor, side: int) -> Image.Image:
    """A square of `side` pixels; small images keep their pixels."""
    made = Image.fromarray(image_3HW.permute(1, 2, 0).contiguous().numpy())
    return made.resize((side, side), Image.Resampling.NEAREST)


def paste_framed(
    sheet: Image.Image, image_3HW: Tensor, place: tuple[int, int], side: int, frame: str
) -> None:
    """Its upper left corner at `place`, the frame around it."""
    left, top = place
    corners = (left - FRAME, top - FRAME, left + side + FRAME - 1, top + side + FRAME - 1)
    ImageDraw.Draw(sheet).rectangle(corners, fill=frame)
    sheet.paste(picture(image_3HW, side), place)


def shortened(words: str, font: Font, width: int) -> str:
    """What fits into so many pixels of one line; names of files may be no valid text, or break it."""
    words = " ".join(words.encode(errors="replace").decode().splitlines())
    if font.getlength(words) <= width:
        return words
    while words and font.getlength(words + "…") > width:
        words = words[:-1]
    return words + "…"
