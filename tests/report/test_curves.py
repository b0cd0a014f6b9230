import pytest
from hypothesis import given
from hypothesis import strategies as st

from semppl.report.curves import Series, bins, loss_terms, series


def test_neighbouring_lines_are_averaged():
    rows = [{"step": i, "epoch": i / 2, "a": float(i)} for i in range(1, 7)]
    assert series(rows, "a", most=3) == Series((1.0, 2.0, 3.0), (1.5, 3.5, 5.5))
    assert series(rows, "a") == Series((0.5, 1.0, 1.5, 2.0, 2.5, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))


def test_what_is_no_number_is_left_out():
    rows = [{"step": 1, "a": float("nan")}, {"step": 2, "a": None}, {"step": 3}, {"epoch": "x", "a": 1.0}]
    assert not series(rows, "a")
    assert series([{"step": 4, "a": 1}], "a") == Series((4.0,), (1.0,)), "steps where there are no epochs"


@given(st.integers(0, 300), st.integers(1, 50))
def test_bins_hold_each_line_once(count, most):
    parts = bins(count, most)
    assert [i for part in parts for i in range(count)[part]] == list(range(count))
    lengths = [part.stop - part.start for part in parts]
    assert len(parts) == min(count, most)
    assert not lengths or (min(lengths) >= 1 and max(lengths) - min(lengths) <= 1)


def test_the_total_comes_first():
    assert loss_terms([{"loss/b": 1, "lr": 2}, {"loss/total": 1, "loss/a": 2}]) == [
        "loss/total",
        "loss/b",
        "loss/a",
    ]


@pytest.mark.parametrize("most", [1, 2])
def test_a_single_line_is_one_bin(most):
    assert bins(1, most) == [slice(0, 1)]
