import io

import pytest
from rich.console import Console

from semppl.train.progress import ProgressReport, StageProgress, Stages, print_table, words

ROW = {
    "step": 5,
    "loss/total": 1.25,
    "images_per_second": 100.0,
    "pseudo/accuracy": 0.5,
    "pseudo/known_by_votes": [0, 20],
}


def test_a_line_says_loss_pseudo_labels_and_rate():
    assert words(ROW) == "loss 1.250, 100 images/s, 50 % of pseudo-labels right"
    few = ROW | {"pseudo/known_by_votes": [0, 19], "pseudo/mean_share": 0.25}
    assert words(few) == "loss 1.250, 100 images/s, 25 % of votes agree", "19 are too few to speak of a share"
    row = {key: value for key, value in ROW.items() if not key.startswith("pseudo")}
    assert words(row | {"pseudo/mean_share": 0.25}) == "loss 1.250, 100 images/s, 25 % of votes agree"
    assert words(row) == "loss 1.250, 100 images/s"


def test_without_a_terminal_there_are_plain_lines_and_always_the_last():
    out = io.StringIO()
    with ProgressReport(Console(file=out, width=200), "run", start=0, total=6, every=1e9) as progress:
        progress.report(ROW)
        progress.report(ROW | {"step": 6})
    assert (
        out.getvalue() == "run: step 6/6, 0 s left, loss 1.250, 100 images/s, 50 % of pseudo-labels right\n"
    )


def test_a_terminal_gets_a_bar_with_the_time_left():
    out = io.StringIO()
    console = Console(file=out, width=160, force_terminal=True, color_system=None)
    with ProgressReport(console, "run", start=0, total=6) as progress:
        progress.advance(3)
        progress.report(ROW | {"step": 3})
    assert "3/6" in out.getvalue()
    assert "loss 1.250" in out.getvalue()


def test_waiting_for_data_is_shown_where_there_is_any():
    assert "images/s, 12 % of the time waiting for data" in words(ROW | {"data_wait": 0.123})
    assert "waiting" not in words(ROW | {"data_wait": 0.0})


def test_a_stage_speaks_now_and_then_without_a_terminal():
    out = io.StringIO()
    with StageProgress(Console(file=out, width=200), "predicting", 3000, every=0.0) as progress:
        progress.advance(1000)
        progress.advance(3000)
    assert out.getvalue() == "predicting: 1,000/3,000, 0 s left\n"
    out = io.StringIO()
    with StageProgress(Console(file=out, width=200), "predicting", 3000) as progress:
        progress.advance(1000)
    assert out.getvalue() == ""


def test_what_falls_away_takes_no_time():
    out = io.StringIO()
    with StageProgress(Console(file=out, width=200), "steps", 3000, every=0.0) as progress:
        progress.advance(1000, 2000)
        progress.advance(1500)
        progress.advance(2000)
    assert out.getvalue() == "steps: 1,000/2,000, 0 s left\nsteps: 1,500/2,000, 0 s left\n"


def test_a_table_is_printed_whole():
    out = io.StringIO()
    print_table(Console(file=out, width=80), "Title", ("name", "value"), [("a", "1.0"), ("b", "22.0")])
    lines = out.getvalue().splitlines()
    assert lines[1] == "Title"
    assert "│ b    │  22.0 │" in lines


@pytest.mark.parametrize("width", [10, 20, 28, 40])
def test_no_number_is_cut_however_narrow_the_console_is(width):
    out = io.StringIO()
    rows = [
        ("a name of several words", "76.9 ± 14.2", "68.5 / 76.0 / 79.7"),
        ("averylongnamewithoutend", "1.0", ""),
    ]
    print_table(Console(file=out, width=width), "Title", ("name", "linear", "paper"), rows)
    text = out.getvalue()
    assert "…" not in text
    found = [word for line in text.splitlines() for word in line.replace("│", " ").split()]
    for number in ("76.9", "14.2", "68.5", "76.0", "79.7", "1.0"):
        assert number in found


def test_a_table_that_fits_is_not_folded():
    out = io.StringIO()
    print_table(Console(file=out, width=27), "Title", ("name", "linear"), [("two words", "76.9 ± 14.2")])
    assert "│ two words │ 76.9 ± 14.2 │" in out.getvalue().splitlines()


def test_stages_follow_each_other_and_short_ones_are_silent(monkeypatch):
    monkeypatch.setattr(StageProgress.__init__, "__kwdefaults__", {"every": 0.0})
    out = io.StringIO()
    with Stages(Console(file=out, width=200), least=10) as stages:
        stages.advance("short", 0, 9)
        stages.advance("short", 5, 9)
        stages.advance("long", 0, 20)
        stages.advance("long", 10, 20)
        stages.advance("long", 20, 20)
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == ["long: 0/20", "long: 10/20"]
