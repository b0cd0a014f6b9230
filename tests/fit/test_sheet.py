import torch
from PIL import Image

from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.fit.sheet import Tile, sheet


def test_each_image_is_where_it_belongs_with_words_below(tmp_path):
    pixels = torch.stack([torch.full((3, 4, 4), level, dtype=torch.uint8) for level in (10, 90, 200)])
    tiles = [Tile(2, "a" * 100, "b"), *[Tile(1, "x", "y")] * 8]
    picture = sheet(pixels, tiles)
    assert picture.size == (8 * 140 + 12, 2 * 170 + 12)
    assert picture.getpixel((12 + 64, 12 + 64)) == (200, 200, 200)
    assert picture.getpixel((12 + 64, 12 + 170 + 64)) == (90, 90, 90)
    words = picture.crop((12, 141, 152, 156)).convert("L")
    assert words.getextrema()[0] < 100, "something is written"
    gap = picture.crop((141, 141, 151, 170)).convert("L")
    assert gap.getextrema() == (255, 255), "long words are cut"


def test_files_of_any_shape(tmp_path):
    Image.new("RGB", (30, 9), (0, 0, 255)).save(tmp_path / "wide.png")
    picture = sheet(ImageFiles(tmp_path, Paths(["wide.png"])), [Tile(0, "", "")])
    assert picture.getpixel((40, 40)) == (0, 0, 255)
