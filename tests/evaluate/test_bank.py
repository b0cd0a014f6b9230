import math

import pytest
import torch

from semppl.core.labels import UNLABELLED
from semppl.evaluate import bank as module
from semppl.evaluate.bank import Answer, build_bank, precision_by_share
from semppl.evaluate.knn import knn_predict


def angles(*degrees):
    radians = torch.tensor(degrees) * math.pi / 180
    return torch.stack([radians.cos(), radians.sin()], dim=1)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def reference(query, keys, labels, k, without=None):
    """Winner, share, positions and cosines for one query, in plain loops."""
    order = [i for i in range(len(keys)) if i != without]
    order.sort(key=lambda i: -cosine(query, keys[i]))
    near = order[:k]
    score = {}
    for i in near:
        score[labels[i]] = score.get(labels[i], 0) + math.exp(cosine(query, keys[i]) / 0.1)
    winner = max(score, key=lambda label: (score[label], -label))
    share = score[winner] / sum(score.values())
    return winner, share, near, [cosine(query, keys[i]) for i in near]


def agrees(answer, row, expected):
    winner, share, near, cosines = expected
    assert answer.labels_N[row] == winner
    assert float(answer.share_N[row]) == pytest.approx(share, rel=1e-4)
    assert answer.near_NK[row].tolist() == near
    assert answer.cosine_NK[row].tolist() == pytest.approx(cosines, abs=1e-5)


@pytest.mark.parametrize("asked", [3, 4096])
def test_answers_against_plain_loops(monkeypatch, asked):
    monkeypatch.setattr(module, "_ASKED", asked)
    keys, queries = torch.randn(24, 6), 3 * torch.randn(10, 6)
    labels = torch.arange(24) % 4
    bank = build_bank(keys, labels, classes=5, k=7)
    answer, alone = bank.ask(queries), bank.leave_one_out()
    for row, query in enumerate(queries.tolist()):
        agrees(answer, row, reference(query, keys.tolist(), labels.tolist(), 7))
    for row, query in enumerate(keys.tolist()):
        agrees(alone, row, reference(query, keys.tolist(), labels.tolist(), 7, without=row))
    assert torch.equal(answer.labels_N, knn_predict(queries, keys, labels, k=7, classes=5))


def test_a_vote_by_hand():
    # the nearest says 1; the two others say 0 and weigh e^{−2} each
    keys = torch.tensor([[0.8, 0.6], [0.8, -0.6], [1.0, 0.0], [0.0, 1.0]])
    bank = build_bank(keys, torch.tensor([0, 0, 1, 1]), classes=2, k=3)
    answer = bank.ask(torch.tensor([[5.0, 0.0]]))
    assert answer.labels_N.tolist() == [1]
    assert float(answer.share_N) == pytest.approx(1 / (1 + 2 * math.exp(-2)))
    assert answer.near_NK[0, 0] == 2
    assert answer.cosine_NK[0].tolist() == pytest.approx([1, 0.8, 0.8])


def test_a_tied_vote_goes_to_the_lowest_class():
    keys = torch.tensor([[0.6, 0.8], [0.6, -0.8], [-1.0, 0.0], [-0.8, 0.6]])
    bank = build_bank(keys, torch.tensor([2, 1, 1, 2]), classes=3, k=2)
    answer = bank.ask(torch.tensor([[1.0, 0.0]]))
    assert answer.labels_N.tolist() == [1]
    assert answer.share_N.tolist() == [0.5]


def test_neighbours_who_agree_have_share_one_exactly():
    keys = torch.randn(40, 8)
    bank = build_bank(keys, torch.zeros(40, dtype=torch.long), classes=3, k=9)
    assert bank.ask(torch.randn(500, 8)).share_N.eq(1).all()


def test_far_and_opposite_neighbours_still_vote():
    bank = build_bank(angles(170.0, 180.0, 190.0), torch.tensor([1, 1, 1]), classes=2)
    answer = bank.ask(angles(0.0))
    assert answer.labels_N.tolist() == [1]
    assert answer.cosine_NK.max() < 0


@pytest.mark.parametrize(
    ("sizes", "k"),
    [
        ([1, 1, 1], 1),  # one label for each class
        ([2, 2], 3),
        ([3, 8], 5),
        ([5, 5], 9),
        ([6, 6], 10),  # 11 would do, but 10 are asked for
        ([1, 4, 9], 7),  # a class of one does not bind the others
        ([0, 4, 4], 7),  # nor does a class without labels
        ([3], 3),  # no more than there are
        ([1], 1),
    ],
)
def test_k_fits_the_labels(sizes, k):
    labels = torch.repeat_interleave(torch.tensor(sizes))
    bank = build_bank(torch.randn(len(labels), 4), labels, classes=len(sizes))
    assert bank.k == k
    answer = bank.ask(torch.randn(6, 4))
    assert answer.near_NK.shape == answer.cosine_NK.shape == (6, k)
    assert (answer.share_N > 0).all()
    assert (answer.share_N <= 1).all()


def test_features_are_kept_at_unit_length():
    bank = build_bank(torch.tensor([[3.0, 4.0], [0.0, 0.1]]).double(), torch.tensor([0, 1]), classes=2)
    assert torch.allclose(bank.features_LF, torch.tensor([[0.6, 0.8], [0.0, 1.0]]))
    assert bank.features_LF.dtype == torch.float32


def test_leave_one_out_by_hand():
    # two of class 0 side by side, class 1 alone beside them, two of class 2 opposite
    bank = build_bank(angles(0.0, 4.0, 10.0, 180.0, 186.0), torch.tensor([0, 0, 1, 2, 2]), classes=3, k=1)
    answer = bank.leave_one_out()
    assert answer.near_NK.squeeze(1).tolist() == [1, 0, 1, 4, 3]
    assert answer.labels_N.tolist() == [0, 0, 0, 2, 2]
    assert bank.asked_L.tolist() == [True, True, False, True, True]


def test_copies_of_an_image_do_not_confuse_leave_one_out():
    # one image six times, and one elsewhere: each copy sees the five others
    bank = build_bank(angles(*[30.0] * 6, 90.0), torch.tensor([0, 0, 0, 0, 0, 0, 0]), classes=1, k=5)
    near = bank.leave_one_out().near_NK
    for row in range(6):
        assert sorted(near[row].tolist()) == [i for i in range(6) if i != row]
    for k in (1, 2, 3):
        near = build_bank(angles(*[30.0] * 6), torch.zeros(6).long(), classes=1, k=k).leave_one_out().near_NK
        assert near.shape == (6, k)
        assert not (near == torch.arange(6)[:, None]).any()


def test_a_feature_of_zeros_is_no_neighbour_of_itself():
    bank = build_bank(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1]]), torch.zeros(3).long(), 1, k=1)
    assert bank.leave_one_out().near_NK[0].item() != 0


def test_a_single_label_has_nobody_to_ask():
    bank = build_bank(angles(0.0), torch.tensor([1]), classes=3)
    answer = bank.leave_one_out()
    assert (answer.labels_N.tolist(), answer.share_N.tolist()) == ([UNLABELLED], [0.0])
    assert answer.near_NK.shape == (1, 0)
    assert bank.asked_L.tolist() == [False]
    assert bank.ask(angles(90.0)).labels_N.tolist() == [1]


def test_nothing_asked_is_nothing_answered():
    answer = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2).ask(torch.empty(0, 2))
    assert [len(part) for part in answer] == [0, 0, 0, 0]
    assert answer.near_NK.shape == (0, 1)
    for line in precision_by_share(answer, torch.empty(0).long()):
        assert math.isnan(line.precision)
        assert (line.coverage, line.count) == (0, 0)


@pytest.mark.parametrize(
    ("features", "labels", "k", "message"),
    [
        (torch.ones(2, 3), [0, 2], 1, "from 0 to 1"),
        (torch.ones(2, 3), [0, UNLABELLED], 1, "from 0 to 1"),
        (torch.ones(3, 3), [0, 1], 1, "do not fit 2 labels"),
        (torch.ones(0, 3), [], 1, "do not fit 0 labels"),
        (torch.ones(2, 3), [0, 1], 0, "k must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(features, labels, k, message):
    with pytest.raises(ValueError, match=message):
        build_bank(features, torch.tensor(labels), classes=2, k=k)


def answered(labels, shares):
    nothing = torch.empty(len(labels), 0)
    return Answer(torch.tensor(labels), torch.tensor(shares), nothing, nothing)


def test_precision_by_share_by_hand():
    answer = answered([0, 1, 1, 0, 2], [1.0, 0.9, 0.6, 0.5, 0.4])
    truth = torch.tensor([0, 1, 0, 0, 1])
    everything, half, most, none = precision_by_share(answer, truth, (0, 0.5, 0.9, 1.1))
    assert everything == (0, 3 / 5, 1.0, 5)
    assert half == (0.5, 3 / 4, 4 / 5, 4)
    assert most == (0.9, 1.0, 2 / 5, 2)
    assert math.isnan(none.precision)
    assert (none.coverage, none.count) == (0, 0)
    assert [line.threshold for line in precision_by_share(answer, truth)] == [
        0,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        0.95,
        1,
    ]


def test_images_without_a_truth_count_for_nothing():
    answer = answered([0, 1, 1], [1.0, 1.0, 0.5])
    (line,) = precision_by_share(answer, torch.tensor([0, UNLABELLED, 0]), (0.0,))
    assert line == (0.0, 0.5, 1.0, 2)
