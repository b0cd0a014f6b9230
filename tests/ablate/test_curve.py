from dataclasses import replace

import pytest
from PIL import Image

from semppl.ablate import curve
from semppl.ablate.cell import Score
from semppl.ablate.curve import curve_rows, draw_curve, gains
from semppl.ablate.summary import Summary
from semppl.ablate.tables import build_table, with_name, without_name
from semppl.config import Config

PER_CLASS = (1, 4, 25)


def summary(semppl, without, seeds=(0,)):
    """Linear accuracies of each number of labels, and one point more for each further seed."""
    scores = {}
    for name, values in ((with_name, semppl), (without_name, without)):
        for count, value in zip(PER_CLASS, values, strict=True):
            for seed in seeds:
                pseudo = 80.0 if name is with_name else None
                if value is not None:
                    scores[name(count), seed] = Score(value + seed, value - 5, pseudo, 1.0, {}, "")
    return Summary(build_table("labels", Config(), PER_CLASS), seeds, scores)


def test_each_number_of_labels_has_both_accuracies_and_their_difference():
    rows = curve_rows(summary((60, 80, None), (50, 78, 90), seeds=(0, 1)), PER_CLASS)
    assert rows[0] == [
        "1",
        "60.5 ± 0.7",
        "50.5 ± 0.7",
        "+10.0 ± 0.0",
        "55.0 ± 0.0",
        "45.0 ± 0.0",
        "80.0 ± 0.0",
    ]
    assert rows[2] == ["25", "–", "90.5 ± 0.7", "–", "–", "85.0 ± 0.0", "–"]
    assert curve_rows(summary((60, 80, 91), (50, 78, 90)), PER_CLASS)[1][3] == "+2.0"


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ((50, 78, 90), "+10.0 with 1 per class and +1.0 with 25: agrees"),
        ((60, 78, 80), "+0.0 with 1 per class and +11.0 with 25: the other way"),
    ],
)
def test_the_gain_is_larger_with_fewer_labels_or_not(without, words):
    assert gains(summary((60, 80, 91), without, seeds=(0, 1)), PER_CLASS).endswith(words)


def test_one_seed_cannot_tell_where_the_gain_is_larger():
    words = "+10.0 with 1 per class and +1.0 with 25: one seed cannot tell"
    assert gains(summary((60, 80, 91), (50, 78, 90)), PER_CLASS).endswith(words)


def test_with_several_seeds_the_gains_are_paired():
    assert gains(summary((60, 80, 91), (50, 78, 90), seeds=(0, 1)), PER_CLASS).endswith("25: agrees")
    found = summary((60, 80, 91), (50, 78, 90), seeds=(0, 1))
    found.scores[with_name(1), 1] = replace(found.scores[with_name(1), 1], linear=52.0)
    assert gains(found, PER_CLASS).endswith("too close to tell (it may be chance)")


def test_a_gain_at_one_number_of_labels_says_nothing():
    assert gains(summary((60, None, None), (50, 78, 90)), PER_CLASS).endswith("not known yet")


def test_the_picture_shows_both_curves(tmp_path):
    assert draw_curve(summary((60, None, 91), (50, 78, 90), (0, 1)), PER_CLASS, tmp_path / "curve.png")
    with Image.open(tmp_path / "curve.png") as picture:
        colours = [colour for _, colour in picture.convert("RGB").getcolors(10**6)]
    assert (31, 119, 180) in colours
    assert (255, 127, 14) in colours


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(curve, "drawable", lambda: False)
    assert not draw_curve(summary((60, 80, 91), (50, 78, 90)), PER_CLASS, tmp_path / "curve.png")
    assert not list(tmp_path.iterdir())
