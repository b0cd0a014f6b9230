import base64
import io

import pytest
from PIL import Image
from tests.report.conftest import write_sheets

from semppl.report.exhibit import Tiles
from semppl.report.thumbnails import Place, Sheet, load_sheets, place

PLENTY = 10**9


@pytest.fixture
def tiles(tmp_path):
    return Tiles(**write_sheets(tmp_path, "t", [0, 1, 2, 0, 1], side=16, columns=2))


def opened(sheet):
    return Image.open(io.BytesIO(base64.b64decode(sheet.address.partition(",")[2])))


def test_sheets_are_inlined_as_they_are(tmp_path, tiles):
    assert list(tiles.sheets) == ["t-0.webp", "t-1.webp"]
    (first, second), problems = load_sheets(tmp_path, tiles, PLENTY)
    assert problems == []
    assert first.address.startswith("data:image/webp;base64,")
    assert base64.b64decode(first.address.partition(",")[2]) == (tmp_path / "t-0.webp").read_bytes()
    assert [(s.columns, s.rows) for s in (first, second)] == [(2, 2), (2, 1)]


def test_places_by_hand():
    tiles = Tiles(16, 3, 6, ("a", "b"))
    sheets = [Sheet("", 3, 2), Sheet("", 3, 1)]
    assert place(0, tiles, sheets) == Place(0, 0.0, 0.0)
    assert place(4, tiles, sheets) == Place(0, 50.0, 100.0)
    assert place(8, tiles, sheets) == Place(1, 100.0, 0.0), "a single row is not moved"
    assert place(9, tiles, sheets) is None, "below the last row"
    assert place(0, tiles, [None, None]) is None
    assert place(99, tiles, sheets) is None


def test_a_damaged_sheet_is_named_and_the_others_stay(tmp_path, tiles):
    whole = (tmp_path / "t-0.webp").read_bytes()
    (tmp_path / "t-0.webp").write_bytes(whole[: len(whole) // 2])
    (first, second), (problem,) = load_sheets(tmp_path, tiles, PLENTY)
    assert first is None
    assert second is not None
    assert problem.startswith("t-0.webp cannot be read")


def test_what_is_no_sheet_is_not_shown(tmp_path, tiles):
    (tmp_path / "t-0.webp").write_text("<svg onload='alert(1)'/>")
    Image.new("RGB", (33, 16)).save(tmp_path / "t-1.webp")
    sheets, problems = load_sheets(tmp_path, tiles, PLENTY)
    assert sheets == [None, None]
    assert problems[1] == "t-1.webp is no sheet of thumbnails of 16 px"
    (tmp_path / "t-0.webp").unlink()
    Image.new("1", (8208, 16)).save(tmp_path / "t-1.webp", "PNG")
    _, problems = load_sheets(tmp_path, tiles, PLENTY)
    assert problems[0] == "t-0.webp cannot be read (there is none)"
    assert problems[1].startswith("t-1.webp is too large")


def test_too_many_bytes_cost_quality_then_size(tmp_path):
    tiles = Tiles(**write_sheets(tmp_path, "t", list(range(64)), columns=8, quality=95, noise=True))
    sizes = {}
    for most in (PLENTY, 100_000, 20_000, 0):
        (sheet,), _ = load_sheets(tmp_path, tiles, most)
        sizes[most] = (len(sheet.address), opened(sheet).size[0])
        assert (sheet.columns, sheet.rows) == (8, 8), "places stay"
    assert sizes[PLENTY][1] == 512
    assert sizes[100_000][0] < 101_000
    assert sizes[20_000][0] < 21_000
    assert sizes[0][1] == 8 * 24, "the smallest is taken where none is small enough"
