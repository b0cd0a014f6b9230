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


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match="matplotlib"):
        draw_scaling(ROWS, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
