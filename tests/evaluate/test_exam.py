from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from semppl.core.hidden import HiddenLabels
from semppl.data.dataset import Dataset
from semppl.evaluate.exam import final_exam, marked, surely_better, validation_exam, withheld_exam


@pytest.fixture
def data():
    """Six images: two labelled, one held out, three whose label is withheld, of one nobody knows it."""
    return Dataset(
        name="d",
        images=torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 3, 1, 1),
        labels_M=torch.tensor([0, 1, -1, -1, -1, -1]),
        held_out_M=torch.tensor([-1, -1, 1, -1, -1, -1]),
        names=tuple("abcdef"),
        classes=("x", "y"),
        hidden=HiddenLabels(torch.tensor([0, 1, 1, 0, -1, 1])),
    )


def places(exam):
    return exam.images[:, 0, 0, 0].tolist()


def test_withheld_labels_are_those_that_nobody_gave(data):
    exam = withheld_exam(data)
    assert (exam.kind, places(exam)) == ("withheld", [3, 5])
    assert exam.mark(torch.tensor([0, 0])).tolist() == [True, False]
    assert exam.describe() == "2 images whose label was withheld"


def test_validation_is_on_labels_that_were_set_aside(data):
    exam = validation_exam(data)
    assert places(exam) == [2]
    assert exam.mark(torch.tensor([1])).tolist() == [True]
    assert validation_exam(replace(data, held_out_M=None)) is None


def test_the_final_exam_takes_the_best_there_is(data):
    test = replace(data, test_images=data.images[:2], test_labels_T=torch.tensor([1, 1]))
    assert final_exam(test).kind == "test"
    assert final_exam(test).mark(torch.tensor([1, 0])).tolist() == [True, False]
    assert final_exam(data).kind == "withheld"
    held = torch.tensor([-1, -1, 1, 0, -1, 1])
    assert final_exam(replace(data, held_out_M=held)).kind == "validation", "none is withheld any more"
    only = HiddenLabels(torch.tensor([-1, -1, 1, -1, -1, -1]))
    assert final_exam(replace(data, hidden=only)).kind == "validation"
    assert final_exam(replace(data, hidden=None, held_out_M=None)) is None


def test_wilsons_interval_by_hand():
    # 8 of 10: centre (0.8 + 0.19208) / 1.38416, half 1.96 / 1.38416 · √(0.016 + 0.009604)
    mark = marked(torch.tensor([True] * 8 + [False] * 2))
    assert mark.accuracy == pytest.approx(80)
    assert mark.low == pytest.approx(49.02, abs=0.01)
    assert mark.high == pytest.approx(94.33, abs=0.01)
    assert str(mark) == "80.0 (49.0 to 94.3)"
    assert marked(torch.ones(5, dtype=torch.bool)).high == 100
    assert marked(torch.zeros(5, dtype=torch.bool)).low == 0


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_the_interval_holds_the_accuracy(answers):
    mark = marked(torch.tensor(answers))
    assert 0 <= mark.low <= mark.accuracy + 1e-9
    assert mark.accuracy - 1e-9 <= mark.high <= 100


def test_better_by_more_than_chance_or_not():
    def pair(wins, losses):
        ours = torch.tensor([True] * wins + [False] * losses + [True] * 20)
        theirs = torch.tensor([False] * wins + [True] * losses + [True] * 20)
        return surely_better(ours, theirs), surely_better(theirs, ours)

    assert pair(10, 1) == (True, False)
    assert pair(1, 10) == (False, True)
    assert pair(6, 3) == (False, False)
    # two sides: 2 / 2^5 = 0.0625 and 2 / 2^6 = 0.031; 2 · (1 + 11 + 55) / 2^11 = 0.065
    assert pair(5, 0) == (False, False)
    assert pair(6, 0) == (True, False)
    assert pair(9, 2) == (False, False)
    assert pair(4000, 3000) == (True, False)
    assert pair(0, 0) == (False, False)


def test_how_rare_a_lead_must_be_is_the_callers():
    ours, theirs = torch.ones(4, dtype=torch.bool), torch.zeros(4, dtype=torch.bool)
    assert surely_better(ours, theirs, one_in=16), "four heads in a row"
    assert not surely_better(ours, theirs, one_in=17)
    assert not surely_better(theirs, ours, one_in=1), "no lead at all"
