import pytest
import torch
from PIL import Image, ImageFont

from semppl.core.drawing import FRAME, RIGHT, paste_framed, picture, shortened

FONT = ImageFont.load_default(size=11)


def test_a_small_image_keeps_its_pixels():
    image_322 = torch.zeros(3, 2, 2, dtype=torch.uint8)
    image_322[0, 0, 1] = 255
    made = picture(image_322, 8)
    assert made.size == (8, 8)
    assert {made.getpixel((x, y)) for x in range(4, 8) for y in range(4)} == {(255, 0, 0)}
    assert {made.getpixel((x, y)) for x in range(4) for y in range(8)} == {(0, 0, 0)}


def test_a_frame_lies_around_the_image():
    sheet = Image.new("RGB", (40, 40), "white")
    paste_framed(sheet, torch.full((3, 5, 5), 77, dtype=torch.uint8), (10, 12), 16, RIGHT)
    green = tuple(bytes.fromhex(RIGHT[1:]))
    row = [sheet.getpixel((x, 20)) for x in range(40)]
    start = 10 - FRAME
    white, frame = (255, 255, 255), [green] * FRAME
    assert row == [white] * start + frame + [(77, 77, 77)] * 16 + frame + [white] * (
        40 - start - 16 - 2 * FRAME
    )
    assert sheet.getpixel((20, 12 - FRAME)) == green
    assert sheet.getpixel((20, 12 - FRAME - 1)) == white


@pytest.mark.parametrize(
    "words", ["cat", "a very long name of a class " * 9, "", "two\nlines", "bad\udc80name"]
)
def test_words_are_made_to_fit(words):
    short = shortened(words, FONT, 64)
    assert FONT.getlength(short) <= 64
    short.encode()
    assert (short == words) == (words in ("cat", ""))
