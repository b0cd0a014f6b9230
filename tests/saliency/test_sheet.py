import numpy as np
import pytest
import torch
from tests.saliency.stubs import save, square_image, use_brightness

from semppl.core.rng import generator
from semppl.saliency.looking import look_at
from semppl.saliency.reading import Item
from semppl.saliency.sheet import SIDE, Tile, drawn, masked_view, row_of
from semppl.views.masking import Saliency, mask_background


def image(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (20, 30, 3), np.uint8)


def mask(share):
    return np.arange(20 * 30).reshape(20, 30) < share * 600


def test_the_masked_view_is_that_of_training():
    pixels, mask_HW = image(), mask(0.4)
    tile = masked_view(pixels, mask_HW, seed=3)
    np.testing.assert_array_equal(tile.image_HW3[mask_HW], pixels[mask_HW])
    (grey,) = np.unique(tile.image_HW3[~mask_HW])
    expected = mask_background(
        torch.from_numpy(pixels).permute(2, 0, 1)[None],
        torch.from_numpy(mask_HW)[None],
        Saliency(probability=1.0),
        generator(3, "masks/sheet"),
    )
    assert (expected[0, :, ~torch.from_numpy(mask_HW)] == int(grey)).all()
    assert tile.words == "40 %"


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0 %, not masked (< 20 %)"), (0.198, "19 %, not masked (< 20 %)")]
)
def test_too_little_foreground_leaves_the_image_and_says_so(share, words):
    pixels = image()
    tile = masked_view(pixels, mask(share), seed=0)
    np.testing.assert_array_equal(tile.image_HW3, pixels)
    assert tile.words == words


def test_from_a_fifth_on_it_is_masked_and_all_foreground_is_the_image():
    assert masked_view(image(), mask(0.2), seed=0).words == "20 %"
    np.testing.assert_array_equal(masked_view(image(), mask(1), seed=0).image_HW3, image())


def test_a_mask_of_another_size_is_stretched():
    halves = np.array([[True], [False]])
    tile = masked_view(image(), halves, seed=0)
    assert tile.words == "50 %"
    np.testing.assert_array_equal(tile.image_HW3[:10], image()[:10])


def test_a_row_has_a_tile_for_each_map(tmp_path, monkeypatch):
    use_brightness(monkeypatch)
    item = Item("a.png", "a.png.png", str(save(tmp_path / "a.png", square_image(40, 20))))
    row = row_of(look_at(item, None, baselines=False), square_image(40, 20)[..., 0] > 127, seed=0)
    assert list(row) == ["image", "bright", "dark", "fused", "fused, cut", "masked view"]
    assert [tile.words for tile in row.values()] == ["a.png", "50 %", "50 %", "50 %", "50 %", "50 %"]


def test_the_sheet_has_room_for_all_rows_whatever_their_shape():
    rows = [
        {"image": Tile(pixels, "a name"), "masked view": Tile(pixels, "a very long name " * 9)}
        for pixels in (square_image(300, 100), square_image(1, 500), square_image(500, 1), square_image(8, 8))
    ]
    sheet = drawn(rows)
    assert sheet.width == 8 + 2 * (SIDE + 8)
    assert 3 * SIDE < sheet.height < 4 * SIDE + 200
    # the first tile is where it should be: bright above, dark below
    assert sheet.getpixel((20, 30)) == (255, 255, 255)
    assert sheet.getpixel((20, 24 + SIDE - 10)) == (0, 0, 0)
