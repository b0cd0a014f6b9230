import sys

import pytest
from PIL import Image

from semppl.bench.picture import draw_scaling
from semppl.core.errors import UserError

ROWS = [
    {"factor": factor, "value": value, "ms": value / 10, "peak_mb": 5.0}
    for factor in ("batch", "queue")
    for value in (10, 100, 1000)
]


def test_the_picture_has_a_panel_for_each_factor(tmp_path):
    draw_scaling(ROWS, tmp_path / "two.png")
    draw_scaling(ROWS[:3], tmp_path / "one.png")
    with Image.open(tmp_path / "two.png") as two, Image.open(tmp_path / "one.png") as one:
        assert two.width == 2 * one.width
        assert len(two.convert("RGB").getcolors(10**6)) > 10


def test_what_has_no_memory_is_drawn_without(tmp_path):
    draw_scaling([{**row, "peak_mb": None} for row in ROWS], tmp_path / "bare.png")
    draw_scaling(ROWS, tmp_path / "full.png")
    with Image.open(tmp_path / "bare.png") as bare, Image.open(tmp_path / "full.png") as full:
        orange = (255, 127, 14)
        assert orange in [colour for _, colour in full.convert("RGB").getcolors(10**6)]
        assert orange not in [colour for _, colour in bare.convert("RGB").getcolors(10**6)]


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match="matplotlib"):
        draw_scaling(ROWS, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
