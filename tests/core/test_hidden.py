import pickle

import pytest
import torch

from semppl.core.hidden import HiddenLabels


def test_agreement_counts_right_and_asked_by_group():
    hidden = HiddenLabels(torch.tensor([0, 1, 2, -1, 1]))
    index = torch.tensor([0, 1, 2, 3, 4])
    guess = torch.tensor([0, 0, 2, 0, 1])
    group = torch.tensor([0, 0, 1, 1, -1])
    table = hidden.agreement(index, guess, group, groups=3)
    assert table.tolist() == [[1, 2], [1, 1], [0, 0]]


def test_a_later_change_of_the_callers_tensor_does_not_reach_in():
    truth = torch.tensor([1])
    hidden = HiddenLabels(truth)
    truth[0] = 0
    zero = torch.zeros(1, dtype=torch.long)
    assert hidden.agreement(zero, torch.ones(1, dtype=torch.long), zero, 1).tolist() == [[1, 1]]


def test_it_shows_and_writes_no_label():
    hidden = HiddenLabels(torch.tensor([7, 7]))
    assert "7" not in repr(hidden)
    assert not hasattr(hidden, "__dict__")
    with pytest.raises(TypeError, match="written nowhere"):
        pickle.dumps(hidden)


def test_some_of_it_can_be_forgotten():
    hidden = HiddenLabels(torch.tensor([0, 1, 2]))
    index = torch.arange(3)
    table = hidden.without(torch.tensor([1])).agreement(index, index, torch.zeros(3, dtype=torch.long), 1)
    assert table.tolist() == [[2, 2]]
    assert hidden.agreement(index, index, torch.zeros(3, dtype=torch.long), 1).tolist() == [[3, 3]]
