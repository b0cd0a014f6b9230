import numpy as np
import pytest
import torch
from PIL import Image

from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.train import tiles
from semppl.train.tiles import arranged, write_tiles


def levels(count):
    """Image i is of one grey level."""
    return (torch.arange(count) * 5 % 256).to(torch.uint8)[:, None, None, None].expand(count, 3, 8, 8)


def test_tiles_are_arranged_row_by_row():
    tiles_N3ss = torch.randint(256, (70, 3, 4, 4), dtype=torch.uint8)
    sheet = np.asarray(arranged(tiles_N3ss))
    assert sheet.shape == (3 * 4, 32 * 4, 3)
    for n, tile in enumerate(tiles_N3ss):
        top, left = n // 32 * 4, n % 32 * 4
        assert np.array_equal(sheet[top : top + 4, left : left + 4], tile.permute(1, 2, 0).numpy())
    assert not sheet[8:, 6 * 4 :].any()


def test_tile_i_shows_image_i_over_several_sheets_and_old_ones_go(tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "PER_SHEET", 64)
    (tmp_path / "other-7.webp").write_bytes(b"")
    told = write_tiles(tmp_path, "tiles", levels(70))
    assert told == {"side": 64, "columns": 32, "per_sheet": 64, "sheets": ["tiles-0.webp", "tiles-1.webp"]}
    for n in range(70):
        sheet, place = divmod(n, 64)
        with Image.open(tmp_path / told["sheets"][sheet]) as picture:
            level = picture.getpixel((place % 32 * 64 + 32, place // 32 * 64 + 32))
        assert level == pytest.approx((n * 5 % 256,) * 3, abs=6)
    assert picture.size == (2048, 64), "no more rows than needed"
    assert write_tiles(tmp_path, "tiles", levels(3))["sheets"] == ["tiles-0.webp"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other-7.webp", "tiles-0.webp"]
    assert write_tiles(tmp_path, "tiles", levels(0))["sheets"] == []


def test_files_of_any_shape_and_one_that_is_gone(tmp_path):
    Image.new("RGB", (30, 9), (0, 0, 250)).save(tmp_path / "wide.png")
    write_tiles(tmp_path, "t", ImageFiles(tmp_path, Paths(["wide.png", "gone.png"])), workers=0)
    with Image.open(tmp_path / "t-0.webp") as picture:
        assert picture.getpixel((32, 32)) == pytest.approx((0, 0, 250), abs=6)
        assert picture.getpixel((96, 32)) == pytest.approx((128,) * 3, abs=6)


def test_without_webp_it_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tiles.features, "check", lambda name: False)
    with pytest.raises(OSError, match="no WebP"):
        write_tiles(tmp_path, "t", levels(1))
