import math
from collections import Counter

import pytest
import torch

from semppl.evaluate import advice
from semppl.evaluate.advice import Coverage, Suggestion, label_next, suspicious
from semppl.evaluate.bank import build_bank


def angles(*degrees):
    radians = torch.tensor(degrees) * math.pi / 180
    return torch.stack([radians.cos(), radians.sin()], dim=1)


def answered(labels, bank, features):
    """As if these labels had been voted for."""
    return bank.ask(features)._replace(labels_N=torch.tensor(labels))


def asked(bank, features, **changes):
    return label_next(bank.ask(features), features, bank, **changes)


def cover(degrees):
    return math.exp((math.cos(math.radians(degrees)) - 1) / 0.1)


def test_gains_by_hand():
    # the labels at 0° and 90° are of two classes, so 45° is in doubt by half and 0° by very little
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    far = cover(90)
    doubt = {0: far / (1 + far) + 0.01, 45: 0.5 + 0.01}
    gain_0, gain_45 = Coverage(angles(0.0, 45.0), bank).gains(torch.tensor([0, 1])).tolist()
    assert gain_0 == pytest.approx(0, abs=1e-6)
    assert gain_45 == pytest.approx(doubt[45] * (1 - cover(45)), rel=1e-4)
    both = Coverage(angles(40.0, 45.0), bank)
    doubt_40 = cover(50) / (cover(40) + cover(50)) + 0.01
    expected = doubt_40 * (cover(5) - cover(40)) + doubt[45] * (1 - cover(45))
    assert both.gains(torch.tensor([1])).item() == pytest.approx(expected, rel=1e-4)


def test_a_label_that_is_added_leaves_nothing_to_gain_there():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    coverage = Coverage(angles(45.0, 45.0, 200.0), bank)
    before = coverage.gains(torch.arange(3))
    assert coverage.add_(0) == 2
    after = coverage.gains(torch.arange(3))
    assert after[:2].tolist() == pytest.approx([0, 0], abs=1e-6)
    assert after[2].item() == pytest.approx(before[2].item(), rel=1e-4)


def test_what_many_in_doubt_are_like_comes_before_a_stranger_and_before_what_is_known():
    # three between the labels, five at a label, and one that is like nothing
    bank = build_bank(angles(-1.0, 0.0, 1.0, 89.0, 90.0, 91.0), torch.tensor([0, 0, 0, 1, 1, 1]), classes=2)
    features = angles(200.0, 1.0, 1.0, 1.0, 1.0, 1.0, 43.0, 44.5, 46.0)
    first, *_ = label_next(answered([0] * 9, bank, features), features, bank, count=3)
    assert (first.index, first.stands_for) == (7, 3 / 9)
    assert 0.5 < first.share == bank.ask(features).share_N[7] < 0.7
    assert first.cosine == pytest.approx(math.cos(math.radians(43.5)), abs=1e-5)


def test_where_nothing_is_in_doubt_the_largest_group_without_a_label_is_chosen():
    # one class alone is never in doubt
    bank = build_bank(angles(0.0, 2.0), torch.tensor([0, 0]), classes=1)
    chosen = asked(bank, angles(1.0, 100.0, 200.0, 202.0, 204.0, 101.0), count=3)
    assert [(each.index, each.stands_for) for each in chosen[:2]] == [(3, 3 / 6), (1, 2 / 6)]


def test_a_choice_is_remembered():
    # having the middle of the three, the two others of them are worth less than the single one
    bank = build_bank(angles(0.0), torch.tensor([0]), classes=1)
    chosen = asked(bank, angles(100.0, 101.0, 102.0, -60.0), count=2)
    assert [each.index for each in chosen] == [1, 3]


def greedy(features, bank, labels, count):
    """The rule in plain loops."""
    vectors = torch.nn.functional.normalize(features.double())
    known = bank.features_LF.double()
    cosine = vectors @ known.T
    doubt = []
    for row in cosine.tolist():
        nearest = sorted(range(len(row)), key=lambda j: -row[j])[:20]
        weight = {j: math.exp(row[j] / 0.1) for j in nearest}
        votes = Counter()
        for j in nearest:
            votes[int(bank.labels_L[j])] += weight[j]
        doubt.append(1 - max(votes.values()) / sum(votes.values()) + 0.01)
    best = [math.exp((max(row) - 1) / 0.1) for row in cosine.tolist()]
    mutual = (((vectors @ vectors.T) - 1) / 0.1).exp().tolist()
    chosen = []
    while len(chosen) < count:
        counts = Counter(labels[i] for i in chosen)
        left = [i for i in range(len(labels)) if i not in chosen]
        fewest = min(counts[labels[i]] for i in left)

        gains = {
            i: sum(d * max(m - b, 0) for d, m, b in zip(doubt, mutual[i], best, strict=True))
            for i in left
            if counts[labels[i]] == fewest
        }
        chosen.append(max(gains, key=gains.__getitem__))
        best = [max(b, m) for b, m in zip(best, mutual[chosen[-1]], strict=True)]
    return chosen


@pytest.mark.parametrize("at_a_time", [1, 3, 256])
@pytest.mark.parametrize("count", [1, 2, 5, 12, 31])
def test_suggestions_against_plain_loops(monkeypatch, count, at_a_time):
    monkeypatch.setattr(advice, "_AT_A_TIME", at_a_time)
    rng = torch.Generator().manual_seed(count)
    bank = build_bank(torch.randn(30, 5, generator=rng), torch.arange(30) % 3, classes=3)
    features = torch.randn(40, 5, generator=rng)
    labels = bank.ask(features).labels_N.tolist()
    chosen = asked(bank, features, count=count)
    assert [each.index for each in chosen] == greedy(features, bank, labels, count)
    assert [each.label for each in chosen] == [labels[each.index] for each in chosen]


def test_few_gains_are_computed_again(monkeypatch):
    monkeypatch.setattr(advice, "_AT_A_TIME", 4)
    asked_for = []
    gains = Coverage.gains
    monkeypatch.setattr(
        Coverage, "gains", lambda self, index_B: asked_for.append(len(index_B)) or gains(self, index_B)
    )
    bank = build_bank(torch.randn(9, 4), torch.arange(9) % 3, classes=3)
    asked(bank, torch.randn(500, 4), count=10)
    assert asked_for[0] == 500
    assert sum(asked_for[1:]) < 500


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 29, 60, 83, 99])
def test_classes_are_balanced_while_they_have_images(count):
    rng = torch.Generator().manual_seed(count)
    sizes = {0: 60, 2: 3, 3: 20}
    labels = torch.cat([torch.full((n,), label) for label, n in sizes.items()])[
        torch.randperm(83, generator=rng)
    ]
    bank = build_bank(torch.randn(8, 4, generator=rng), torch.arange(8) % 4, classes=4)
    features = torch.randn(83, 4, generator=rng)
    chosen = label_next(answered(labels.tolist(), bank, features), features, bank, count=count)
    assert len({each.index for each in chosen}) == len(chosen) == min(count, 83)
    counts = Counter(each.label for each in chosen)
    for label, n in sizes.items():
        assert counts[label] == n or counts[label] >= max(counts.values()) - 1
    assert all(labels[each.index] == each.label for each in chosen)


def test_of_many_images_some_are_looked_at_from_first_to_last(monkeypatch):
    monkeypatch.setattr(advice, "_LOOKED_AT", 11)
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    features = torch.randn(101, 2)
    chosen = asked(bank, features, count=11)
    assert sorted(each.index for each in chosen) == list(range(0, 101, 10))
    answer = bank.ask(features)
    assert all(each.share == answer.share_N[each.index] for each in chosen)
    assert len(asked(bank, features, count=20)) == 20


def test_the_same_question_has_the_same_answer():
    bank = build_bank(torch.randn(9, 4), torch.arange(9) % 3, classes=3)
    features = torch.randn(50, 4)
    assert asked(bank, features, count=20) == asked(bank, features, count=20)


def test_copies_are_different_images_and_stand_for_one_another_once():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    chosen = asked(bank, angles(*[40.0] * 6), count=6)
    assert sorted(each.index for each in chosen) == list(range(6))
    assert [each.stands_for for each in chosen] == [1, 0, 0, 0, 0, 0]


def test_copies_of_labelled_images_stand_for_nothing():
    known = torch.randn(40, 512)
    bank = build_bank(known, torch.arange(40) % 4, classes=4)
    assert {each.stands_for for each in asked(bank, known.repeat(25, 1), count=8)} == {0}


def test_images_without_finite_features_are_passed_over_and_spoil_nothing():
    bank = build_bank(torch.randn(9, 4), torch.arange(9) % 3, classes=3)
    features = torch.randn(50, 4)
    alone = asked(bank, features, count=10)
    broken = torch.cat([features, torch.tensor([[math.nan, 0, 0, 0], [0, math.inf, 0, 0]])])
    assert [each.index for each in asked(bank, broken, count=10)] == [each.index for each in alone]
    assert asked(bank, torch.full((3, 4), math.nan), count=2) == []


def test_classes_that_nobody_votes_for_take_no_turn():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 5]), classes=9)
    chosen = asked(bank, angles(1.0, 2.0, 3.0, 89.0), count=4)
    assert [each.label for each in chosen[:2]] in ([0, 5], [5, 0])
    assert Counter(each.label for each in chosen) == {0: 3, 5: 1}


def test_more_than_all_is_all_and_nothing_is_nothing():
    bank = build_bank(torch.randn(4, 3), torch.arange(4) % 2, classes=2)
    features = torch.randn(5, 3)
    assert sorted(each.index for each in asked(bank, features, count=50)) == [0, 1, 2, 3, 4]
    assert asked(bank, features, count=0) == []
    assert asked(bank, torch.empty(0, 3), count=5) == []


def test_features_must_be_those_that_were_asked_about():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    with pytest.raises(ValueError, match="3 features do not fit 2 answers"):
        label_next(bank.ask(angles(1.0, 2.0)), angles(1.0, 2.0, 3.0), bank, count=1)


@pytest.mark.parametrize(
    ("stands_for", "words"),
    [
        (0.12, "stands for 12 % of the images"),
        (0.0234, "stands for 2.3 % of the images"),
        (0.0001, "stands for less than 0.1 % of the images"),
        (1.0, "stands for 100 % of the images"),
        (0.0, "like one with a label"),
    ],
)
def test_a_reason_is_given_in_words(stands_for, words):
    assert Suggestion(3, 0, 0.5, 0.9, stands_for).reason == words


def accused(bank):
    return suspicious(bank, bank.leave_one_out())


def test_planted_wrong_labels_are_found():
    rng = torch.Generator().manual_seed(0)
    truth = torch.arange(60) % 3
    features = 3 * torch.eye(3, 6)[truth] + 0.3 * torch.randn(60, 6, generator=rng)
    given = truth.clone()
    given[[7, 20, 41]] = (truth[[7, 20, 41]] + 1) % 3
    found = accused(build_bank(features, given, classes=3))
    assert sorted(s.index for s in found) == [7, 20, 41]
    for s in found:
        assert (s.given, s.voted) == (int(given[s.index]), int(truth[s.index]))
    assert [s.share for s in found] == sorted((s.share for s in found), reverse=True)
    assert accused(build_bank(features, truth, classes=3)) == []


def test_the_strongest_disagreement_comes_first():
    # 3° is a 1 amid zeros, so all say 0; from 180° on classes mix, at smaller distances
    degrees = angles(180.0, 181.0, 185.0, 188.0, 3.0, 0.0, 6.0, 12.0)
    bank = build_bank(degrees, torch.tensor([1, 0, 1, 0, 1, 0, 0, 0]), classes=2, k=3)
    first, *others = accused(bank)
    assert first == (4, 1, 0, 1.0)
    assert sorted(other.index for other in others) == [0, 1, 2, 3]
    assert all(0.6 < other.share < 0.7 for other in others)


def test_of_equal_shares_the_nearest_contradiction_comes_first():
    # with one neighbour every share is 1
    bank = build_bank(
        angles(0.0, 6.0, 90.0, 91.0, 200.0, 250.0), torch.tensor([0, 1, 0, 1, 2, 2]), classes=3, k=1
    )
    assert [s.index for s in accused(bank)] == [2, 3, 0, 1]
    assert {s.share for s in accused(bank)} == {1.0}


def test_the_only_image_of_a_class_is_not_accused():
    bank = build_bank(angles(0.0, 1.0, 2.0, 3.0), torch.tensor([0, 0, 1, 0]), classes=2)
    assert accused(bank) == []
    assert accused(build_bank(angles(0.0), torch.tensor([0]), classes=1)) == []
    assert accused(build_bank(angles(0.0, 1.0), torch.tensor([0, 1]), classes=2)) == []
