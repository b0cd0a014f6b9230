"""docs/label_next.py: what a rule for labels is worth."""

import importlib
from pathlib import Path

import pytest
import torch

from semppl.data.arrays import load_npz
from semppl.data.digits import load_digits
from semppl.evaluate.bank import build_bank


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs")
    return importlib.import_module("label_next")


def bank():
    """Two of a class at 1, 0 and one of another at 0, 1."""
    return build_bank(torch.tensor([[1.0, 0], [0.9, 0.1], [0, 1]]), torch.tensor([0, 0, 1]), classes=2)


@pytest.mark.parametrize("rule", ["at random", "in doubt", "farthest", "label_next"])
def test_every_rule_chooses_so_many_different_images(script, rule):
    features = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    picks = script.RULES[rule](features, bank(), 12)
    assert len(picks) == len(set(picks)) == 12
    assert len(set(script.RULES[rule](features, bank(), 99))) == 30


def test_the_farthest_is_chosen_first_and_remembered(script):
    features = torch.tensor([[1.0, 0.1], [-1, -1], [-1, -1.01], [-1, 1]])
    assert script.farthest(features, bank(), 2)[0] == 1
    assert script.farthest(features, bank(), 2)[1] == 3


def test_draws_differ_and_are_the_same_each_time(script):
    features = torch.randn(50, 2)
    first, second = (script.at_random(features, bank(), 5, draw) for draw in (0, 1))
    assert first != second
    assert first == script.at_random(features, bank(), 5)


def test_a_file_with_some_labels_is_the_data_set_without_the_others(script, tmp_path):
    digits, index_L = load_digits(), torch.tensor([3, 700, 1400])
    script.write_labels(tmp_path / "some.npz", digits, index_L)
    again = load_npz(tmp_path / "some.npz")
    assert torch.equal(again.images, digits.images)
    assert torch.equal(again.test_labels_T, digits.test_labels_T)
    assert (again.labels_M >= 0).nonzero().squeeze(1).tolist() == index_L.tolist()
    names = [digits.classes[i] for i in digits.labels_M[index_L].tolist()]
    assert [again.classes[i] for i in again.labels_M[index_L].tolist()] == names


def test_positions_of_labels_are_read_from_the_split(script, tmp_path):
    (tmp_path / "split.csv").write_text('path,label,role\na,,unlabelled\n"b,c",1,labelled\nd,2,test\n')
    assert script.given(tmp_path).tolist() == [1]


def test_marks_of_features_that_tell_classes_apart_are_full(script):
    digits = load_digits()
    features = script.Features(*(torch.eye(10)[each] for each in (digits.labels_M, digits.test_labels_T)))
    index_L = torch.cat([(digits.labels_M == label).nonzero()[:2, 0] for label in range(10)])
    assert script.marked(features, digits, index_L) == (100, 100)
