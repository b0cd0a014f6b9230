import math
from collections import Counter

import pytest
import torch

from semppl.evaluate import advice
from semppl.evaluate.advice import FAR, LOW, label_next, suspicious
from semppl.evaluate.bank import Answer, build_bank


def angles(*degrees):
    radians = torch.tensor(degrees) * math.pi / 180
    return torch.stack([radians.cos(), radians.sin()], dim=1)


def answered(labels, shares, cosines):
    return Answer(
        torch.tensor(labels),
        torch.tensor(shares),
        torch.zeros(len(labels), 1).long(),
        torch.tensor(cosines)[:, None],
    )


def asked(bank, features, **changes):
    return label_next(bank.ask(features), features, bank, **changes)


def test_doubt_and_distance_in_a_plane():
    # class 0 around 0°, class 1 around 90°; 45° is between them, 200° is nowhere
    bank = build_bank(angles(-5.0, 0.0, 5.0, 85.0, 90.0, 95.0), torch.tensor([0, 0, 0, 1, 1, 1]), classes=2)
    features = angles(2.0, 44.0, 88.0, 200.0, 91.0)
    low, far = asked(bank, features, count=2)
    assert (low.index, low.label, low.reason) == (1, 0, LOW)
    assert (far.index, far.label, far.reason) == (3, 1, FAR)
    assert 0.5 < low.share < 0.7
    assert low.cosine == pytest.approx(math.cos(math.radians(39)), abs=1e-5)
    assert far.cosine == pytest.approx(math.cos(math.radians(105)), abs=1e-5)


def test_of_equal_shares_the_lowest_cosine_comes_first():
    answer = answered([0, 0, 0, 0], [0.6, 0.5, 0.5, 0.5], [0.1, 0.9, 0.3, 0.3])
    bank = build_bank(angles(0.0), torch.tensor([0]), classes=1)
    chosen = label_next(answer, angles(10.0, 20.0, 30.0, 40.0), bank, count=4)
    assert [s.index for s in chosen if s.reason == LOW] == [2, 3]


def test_uncertainty_replaces_the_share():
    answer = answered([0, 0, 0], [0.5, 0.9, 1.0], [0.9, 0.9, 0.9])
    bank = build_bank(angles(0.0), torch.tensor([0]), classes=1)
    chosen = label_next(
        answer, angles(1.0, 2.0, 3.0), bank, count=1, uncertainty_N=torch.tensor([0.0, 0.1, 2.0])
    )
    assert [(s.index, s.share, s.reason) for s in chosen] == [(2, 1.0, LOW)]


def test_where_all_agree_there_is_no_doubt():
    # one label for each class: a single neighbour always agrees with itself
    bank = build_bank(angles(0.0, 180.0), torch.tensor([0, 1]), classes=2)
    chosen = asked(bank, angles(10.0, 60.0, 170.0, 120.0), count=4)
    assert {s.reason for s in chosen} == {FAR}
    assert sorted(s.index for s in chosen) == [0, 1, 2, 3]


def test_farthest_first_remembers_what_it_chose():
    # 100° and 101° are both far from the label at 0°; having one of them, −60° is the farthest
    bank = build_bank(angles(0.0), torch.tensor([0]), classes=1)
    chosen = asked(bank, angles(10.0, 100.0, 101.0, -60.0), count=3)
    assert [s.index for s in chosen] == [2, 3, 0]
    assert chosen[2].cosine == pytest.approx(math.cos(math.radians(10)), abs=1e-5)


def test_farthest_first_knows_the_doubtful_ones():
    # 100° is chosen for its share, so 101° is covered and −60° comes next
    answer = answered([0, 0, 0], [1.0, 0.5, 1.0], [0.5, 0.0, 0.0])
    bank = build_bank(angles(0.0), torch.tensor([0]), classes=1)
    chosen = label_next(answer, angles(-60.0, 100.0, 101.0), bank, count=2)
    assert [(s.index, s.reason) for s in chosen] == [(1, LOW), (0, FAR)]


def greedy(features, bank, labels, low, count):
    """Farthest-first with classes in turn, in plain loops."""
    vectors = torch.nn.functional.normalize(features).tolist()
    covered = bank.features_LF.tolist() + [vectors[i] for i in low]
    chosen = list(low)
    while len(chosen) < count:
        counts = Counter(labels[i] for i in chosen)
        left = [i for i in range(len(vectors)) if i not in chosen]
        fewest = min(counts[labels[i]] for i in left)

        def similarity(i):
            return max(sum(a * b for a, b in zip(vectors[i], c, strict=True)) for c in covered)

        pick = min((i for i in left if counts[labels[i]] == fewest), key=similarity)
        chosen.append(pick)
        covered.append(vectors[pick])
    return chosen


@pytest.mark.parametrize("count", [1, 2, 5, 12, 31])
def test_suggestions_against_plain_loops(count):
    bank = build_bank(torch.randn(12, 5), torch.arange(12) % 3, classes=3)
    features = torch.randn(40, 5)
    answer = bank.ask(features)
    chosen = label_next(answer, features, bank, count=count)
    labels = answer.labels_N.tolist()
    low = []
    for _ in range((count + 1) // 2):
        counts = Counter(labels[i] for i in low)
        left = [i for i in range(40) if i not in low]
        fewest = min(counts[labels[i]] for i in left)
        low.append(min((i for i in left if counts[labels[i]] == fewest), key=lambda i: answer.share_N[i]))
    assert (answer.share_N < 1).all()
    assert [s.index for s in chosen] == greedy(features, bank, labels, low, count)
    assert [s.reason for s in chosen] == [LOW] * len(low) + [FAR] * (count - len(low))


@pytest.mark.parametrize("candidates", [6, 20_000])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 29, 60, 83, 99])
def test_classes_are_balanced_while_they_have_images(monkeypatch, candidates, count):
    monkeypatch.setattr(advice, "_CANDIDATES", candidates)
    rng = torch.Generator().manual_seed(count)
    sizes = {0: 60, 2: 3, 3: 20}
    labels = torch.cat([torch.full((n,), label) for label, n in sizes.items()])[
        torch.randperm(83, generator=rng)
    ]
    shares = torch.rand(83, generator=rng).clamp(max=0.8)
    shares[(labels == 0) & (torch.rand(83, generator=rng) < 0.7)] = 1.0
    bank = build_bank(torch.randn(8, 4, generator=rng), torch.arange(8) % 4, classes=4)
    features = torch.randn(83, 4, generator=rng)
    answer = answered(labels.tolist(), shares.tolist(), bank.ask(features).cosine_NK[:, 0].tolist())
    chosen = label_next(answer, features, bank, count=count)
    assert len({s.index for s in chosen}) == len(chosen) == min(count, 83)
    counts = Counter(s.label for s in chosen)
    for label, n in sizes.items():
        assert counts[label] == n or counts[label] >= max(counts.values()) - 1
    assert all(s.share < 1 for s in chosen if s.reason == LOW)
    assert all(labels[s.index] == s.label for s in chosen)


def test_a_class_full_of_doubt_does_not_crowd_out_the_others():
    labels, shares = [0] * 10 + [1] * 10 + [2] * 10, [0.5] * 10 + [1.0] * 20
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=3)
    chosen = label_next(answered(labels, shares, [0.5] * 30), torch.randn(30, 2), bank, count=9)
    assert Counter(s.label for s in chosen) == {0: 3, 1: 3, 2: 3}
    assert Counter(s.reason for s in chosen) == {LOW: 3, FAR: 6}


def test_candidates_are_few_and_spread_evenly():
    classes = torch.tensor([0] * 10 + [1] * 3)
    assert advice._candidates(classes, torch.tensor([0, 12]), 3).tolist() == [3, 6, 9, 10, 11]
    assert advice._candidates(classes, torch.tensor([]).long(), 99).tolist() == list(range(13))


def test_of_a_million_images_twenty_thousand_are_looked_at():
    classes = torch.arange(1_000_000) % 7
    assert 19_900 < len(advice._candidates(classes, torch.tensor([5]), 20_000 // 7)) <= 20_000


def test_the_same_question_has_the_same_answer():
    bank = build_bank(torch.randn(9, 4), torch.arange(9) % 3, classes=3)
    features = torch.randn(50, 4)
    assert asked(bank, features, count=20) == asked(bank, features, count=20)


def test_copies_are_different_images():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    chosen = asked(bank, angles(*[40.0] * 6), count=6)
    assert sorted(s.index for s in chosen) == list(range(6))


def test_more_than_all_is_all_and_nothing_is_nothing():
    bank = build_bank(torch.randn(4, 3), torch.arange(4) % 2, classes=2)
    features = torch.randn(5, 3)
    assert sorted(s.index for s in asked(bank, features, count=50)) == [0, 1, 2, 3, 4]
    assert asked(bank, features, count=0) == []
    assert asked(bank, torch.empty(0, 3), count=5) == []


def test_features_must_be_those_that_were_asked_about():
    bank = build_bank(angles(0.0, 90.0), torch.tensor([0, 1]), classes=2)
    with pytest.raises(ValueError, match="3 features do not fit 2 answers"):
        label_next(bank.ask(angles(1.0, 2.0)), angles(1.0, 2.0, 3.0), bank, count=1)


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
