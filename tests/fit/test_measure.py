import io

import pytest
import torch
from rich.console import Console

from semppl.fit import measure as module
from semppl.fit.measure import measure
from semppl.fit.verdict import Row, marked


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    right = torch.ones(21, dtype=torch.bool)
    row = Row("supervised only", "own head", marked(right), right)
    monkeypatch.setattr(module, "supervised", lambda *_: row)
    monkeypatch.setattr(
        module, "fine_tuned", lambda *_: (None, Row("SemPPL", "fine-tuned", row.mark, right), None)
    )


def ways(found):
    return [(row.name, row.way) for row in found.rows]


def test_all_rows_in_their_order(desk, online):
    found = measure(desk, online, 1.0, finetune=True, baselines=True)
    assert ways(found) == [
        ("SemPPL", "linear"),
        ("SemPPL", "k-NN"),
        ("SemPPL", "fine-tuned"),
        ("frozen at its start", "linear"),
        ("frozen at its start", "k-NN"),
        ("supervised only", "own head"),
    ]
    assert found.exam.describe() == "21 images whose label was withheld"
    assert found.trust[0].count == 3, "votes are tested on the labels held out"
    assert all(0 <= row.validation <= 100 for row in found.rows[:2])


def test_the_confusion_of_the_chosen_way_adds_up_to_its_marks(desk, online):
    found = measure(desk, online, 1.0, finetune=False, baselines=False)
    (row,) = (row for row in found.rows if row.way == found.decides)
    confusion = torch.tensor(found.confusion)
    assert confusion.sum(1).tolist() == [7, 7, 7], "twelve of each class, five of them with a given label"
    assert int(confusion.diagonal().sum()) == int(row.right_N.sum())


def test_parts_can_be_left_out(desk, online):
    found = measure(desk, online, 1.0, finetune=False, baselines=False)
    assert ways(found) == [("SemPPL", "linear"), ("SemPPL", "k-NN")]


def test_without_held_out_labels_votes_are_tested_leaving_one_out(make_desk, online):
    desk = make_desk(validation=0.0)
    found = measure(desk, online, 1.0, finetune=False, baselines=False)
    assert found.trust[0].count == 15
    assert found.rows[0].validation is None


def test_with_nothing_to_measure_on_it_says_so(make_desk, online):
    desk = make_desk(labels_per_class=None, label_fraction=1.0, validation=0.0)
    words = io.StringIO()
    loud = type(desk)(desk.config, desk.dataset, desk.device, Console(file=words, width=300))
    found = measure(loud, online, 1.0, finetune=False, baselines=False)
    assert len(found.exam) == 36
    assert found.confusion is None
    assert "on the very labels of training and mean little" in words.getvalue()
