from dataclasses import replace

import pytest

from semppl.ablate.cell import Score
from semppl.ablate.summary import (
    Summary,
    columns,
    directions,
    headline,
    lines,
    narrow_columns,
    narrow_lines,
    spread,
)
from semppl.ablate.table import PSEUDO, Row, Table

TABLE = Table(
    "voting",
    "View voting",
    [
        Row("on", (), {"10 %": 69.9, PSEUDO: 68.6}),
        Row("off", (), {"10 %": 69.0, PSEUDO: 62.5}, "on"),
        Row("ours", (), {}, "on"),
    ],
    "somewhere",
)


def score(linear, pseudo=None):
    return Score(linear, linear - 10, pseudo, 1.5, {"linear": "l", "k-NN": "k"}, "torch 2")


SCORES = {
    ("on", 0): score(90.0, 80.0),
    ("on", 1): score(92.0, 82.0),
    ("off", 0): score(88.0, 70.0),
    ("off", 1): score(90.2, 72.0),
    ("off", 2): score(10.0, 10.0),
}
SUMMARY = Summary(TABLE, range(3), SCORES)


def test_differences_are_of_seeds_that_both_rows_have():
    found = SUMMARY.difference(TABLE.row("off"), "linear")
    assert (found.mean, found.seeds) == (pytest.approx(-1.9), 2)
    assert found.error == pytest.approx(0.1)
    assert SUMMARY.difference(TABLE.row("on"), "linear") is None
    assert SUMMARY.difference(TABLE.row("ours"), "linear") is None


def test_each_difference_has_its_line():
    assert directions(SUMMARY) == [
        "off against on, linear: paper −0.9, ours −1.9 ± 0.1: agrees",
        "off against on, pseudo-labels: paper −6.1, ours −10.0 ± 0.0: agrees",
        "ours against on, linear: paper –, ours –: missing (no seed has both rows)",
    ]
    assert headline(SUMMARY) == "direction against the paper, of 2 differences: 2 × agrees"


def test_one_seed_says_so_and_unknown_pseudo_labels_are_left_out():
    one = Summary(TABLE, [0], {("on", 0): score(90.0), ("off", 0): score(91.0), ("ours", 0): score(92.0)})
    assert directions(one) == [
        "off against on, linear: paper −0.9, ours +1.0: one seed cannot tell",
        "ours against on, linear: paper –, ours +2.0: not in the paper",
    ]
    assert headline(one) == "direction against the paper, of 1 difference: 1 × one seed cannot tell"


def test_a_row_that_has_one_seed_so_far_counts_apart():
    table = Table("t", "T", [*TABLE.rows[:2], Row("late", (), {"10 %": 60.0}, "on")], "somewhere")
    found = Summary(table, range(3), SCORES | {("late", 0): score(20.0)})
    assert headline(found) == (
        "direction against the paper, of 3 differences: 2 × agrees, 1 × one seed cannot tell"
    )


def test_a_table_without_any_number_of_the_paper_compares_nothing():
    bare = Table("t", "T", [Row("a"), Row("b", (), {}, "a")], "nowhere")
    assert headline(Summary(bare, [0], {})) == "nothing is compared with the paper"


def test_a_table_that_the_paper_does_not_have_is_judged_by_itself():
    own = Table("own", "Own rows", [Row("on"), Row("off", (), {}, "on"), Row("ours", (), {}, "on")], "")
    found = Summary(own, range(3), SCORES | {("ours", 0): score(90.0)})
    assert directions(found) == [
        "off against on, linear: −1.9 ± 0.1: worse",
        "off against on, pseudo-labels: −10.0 ± 0.0: worse",
        "ours against on, linear: +0.0: one seed cannot tell",
    ]
    assert headline(found) == "3 differences: 2 × worse, 1 × one seed cannot tell"
    assert columns(own) == ["row", "linear", "k-NN", "pseudo-labels right", "difference, linear"]
    assert narrow_columns(own) == ["row", "linear", "k-NN", "pseudo"]
    assert narrow_lines(found)[0] == ["on", "91.0 ± 1.4", "81.0 ± 1.4", "81.0 ± 1.4"]


def test_pseudo_labels_that_one_of_two_rows_does_not_have_are_not_compared():
    own = Table("own", "Own rows", [Row("on"), Row("off", (), {}, "on")], "")
    bare = {key: replace(each, pseudo=None) if key[0] == "on" else each for key, each in SCORES.items()}
    assert directions(Summary(own, range(3), bare)) == ["off against on, linear: −1.9 ± 0.1: worse"]


def test_what_is_missing_is_named():
    assert SUMMARY.missing == ["on: seed 2", "ours: seed 0, 1, 2"]
    assert Summary(TABLE, [0], SCORES | {("ours", 0): score(1.0)}).missing == []


def test_rows_for_the_page_and_for_the_console():
    assert columns(TABLE) == [
        "row",
        "paper, 10 % labels",
        "paper pseudo-labels",
        "linear",
        "k-NN",
        "pseudo-labels right",
        "difference, linear",
    ]
    first, second, third = lines(SUMMARY)
    assert first == ["on", "69.9", "68.6", "91.0 ± 1.4", "81.0 ± 1.4", "81.0 ± 1.4", "–"]
    assert second[-1] == "−1.9 ± 0.1 (to on)"
    assert third == ["ours", "–", "–", "–", "–", "–", "–"]
    assert narrow_columns(TABLE) == ["row", "paper", "linear", "k-NN", "pseudo"]
    assert narrow_lines(SUMMARY)[0] == ["on", "69.9 / 68.6", "91.0 ± 1.4", "81.0 ± 1.4", "81.0 ± 1.4"]


def test_spread():
    assert [spread(values) for values in ([], [50.0], [49.0, 51.0])] == ["–", "50.0", "50.0 ± 1.4"]
