import torch
from torch import nn

from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.protocols.self_training import confident, join, without_label


class Teacher(nn.Module):
    """Knows the class by the bright stripe at row 2·label, and is as sure as it is told."""

    def __init__(self, certainty):
        super().__init__()
        self.certainty = certainty

    def forward(self, images_B3ss):
        stripe_B = images_B3ss.mean((1, 3)).argmax(1) // 2
        rest = (1 - self.certainty) / 2
        return torch.full((len(stripe_B), 3), rest).scatter(1, stripe_B[:, None], self.certainty).log()


def test_sure_answers_follow_the_given_labels(make_desk):
    desk = make_desk(validation=0.0)
    labels_M = desk.dataset.labels_M
    given = (labels_M != UNLABELLED).nonzero().squeeze(1)
    both = join(desk, Teacher(0.9), labels_M, 0.8)
    assert torch.equal(both.index_L[:15], given)
    assert torch.equal(both.labels_L[:15], labels_M[given])
    assert sorted(both.index_L.tolist()) == list(range(36))
    truth = torch.arange(3).repeat_interleave(12)
    assert torch.equal(both.labels_L, truth[both.index_L])
    assert both.facts == {"least_probability": 0.8, "joined": 21, "of": 21, "right": 1.0}


def test_the_bound_itself_is_enough_and_less_is_not(make_desk):
    desk = make_desk(validation=0.0)
    index = torch.arange(36)
    assert len(confident(desk, Teacher(0.75), index, 0.7499)[0]) == 36
    assert len(confident(desk, Teacher(0.75), index, 0.7501)[0]) == 0
    none = join(desk, Teacher(0.75), desk.dataset.labels_M, 0.8)
    assert len(none.index_L) == 15
    assert none.facts == {"least_probability": 0.8, "joined": 0, "of": 21}


def test_only_the_sure_ones_join(make_desk):
    desk = make_desk(validation=0.0)

    class Half(Teacher):
        def forward(self, images_B3ss):
            logits = super().forward(images_B3ss)
            return torch.where((logits.argmax(1) == 1)[:, None], torch.zeros_like(logits), logits)

    index, answers = confident(desk, Half(0.9), torch.arange(36), 0.8)
    assert index.tolist() == [*range(12), *range(24, 36)]
    assert answers.tolist() == [0] * 12 + [2] * 12


def test_labels_for_validation_are_no_images_without_a_label(make_desk):
    desk = make_desk(validation=0.2)
    joined = join(desk, Teacher(0.9), desk.dataset.labels_M, 0.5)
    held = desk.dataset.validation_V.tolist()
    assert held
    assert len(without_label(desk, desk.dataset.labels_M)) == 21
    assert not set(held) & set(joined.index_L.tolist())


def test_truth_is_asked_only_for_the_share_of_right_ones(make_desk, monkeypatch):
    desk = make_desk(validation=0.0)
    expected = join(desk, Teacher(0.9), desk.dataset.labels_M, 0.8)
    wrong = HiddenLabels((torch.arange(3).repeat_interleave(12) + 1) % 3)
    object.__setattr__(desk.dataset, "hidden", wrong)
    found = join(desk, Teacher(0.9), desk.dataset.labels_M, 0.8)
    assert torch.equal(found.labels_L, expected.labels_L)
    assert found.facts["right"] == 0.0
    object.__setattr__(desk.dataset, "hidden", None)
    assert "right" not in join(desk, Teacher(0.9), desk.dataset.labels_M, 0.8).facts


def test_nothing_without_a_label_is_nothing_to_join(make_desk):
    desk = make_desk(validation=0.0)
    labels = torch.zeros(36, dtype=torch.long)
    both = join(desk, Teacher(0.9), labels, 0.8)
    assert len(both.index_L) == 36
    assert both.facts["of"] == 0
