import pytest
from PIL import Image

from semppl.core import by_labels
from semppl.core.by_labels import Line, draw_lines_, drawable, point

LINES = [
    Line("`ours` $_{ a $ b", {4: (90.0, 1.0), 1: (50.0, 0.0)}, "tab:blue"),
    Line("theirs", {1: (40.0, 2.0), 4: (95.0, 0.5)}, "0.55", style=":", mark="s", width=0.9),
]


def drawn(path):
    draw_lines_(path, LINES, [1, 4], across="labels", upward="accuracy", made_by="somebody")
    return path


def test_mean_and_deviation_by_hand():
    assert point([80.0, 84.0]) == (82.0, pytest.approx(8**0.5))
    assert point([80.0]) == (80.0, 0.0)


def test_both_lines_are_seen_and_the_file_says_who_made_it(tmp_path):
    """A name with signs of a formula is drawn as it is written."""
    with Image.open(drawn(tmp_path / "a")) as image:
        assert image.info["Software"] == "somebody"
        colours = [colour for _, colour in image.convert("RGB").getcolors(1 << 20)]
    assert (31, 119, 180) in colours
    assert (140, 140, 140) in colours


def test_the_same_picture_each_time(tmp_path):
    assert drawn(tmp_path / "a").read_bytes() == drawn(tmp_path / "b").read_bytes()


def test_matplotlib_is_an_extra(monkeypatch):
    assert drawable()
    monkeypatch.setattr(by_labels, "find_spec", lambda name: None)
    assert not drawable()
