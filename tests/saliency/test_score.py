import math

import numpy as np
import pytest

from semppl.core.errors import UserError
from semppl.saliency.score import BETA2, Scores, Tally, f_measure


def tallied(pairs):
    tally = Tally()
    for found, truth in pairs:
        tally.add_(found, truth)
    return tally


def brute_force(pairs, threshold):
    """Threshold by threshold and pixel by pixel, as the definition says."""

    def f(precision, recall):
        below = BETA2 * precision + recall
        return (1 + BETA2) * precision * recall / below if below else 0.0

    def precision_recall(found, truth, at):
        chosen = [round(float(v) * 255 + 1e-9) >= at for v in found.ravel()]
        right = sum(c and bool(t) for c, t in zip(chosen, truth.ravel(), strict=True))
        return (right / sum(chosen) if sum(chosen) else 0.0), right / int(truth.sum())

    filled = [(found, truth) for found, truth in pairs if truth.any()]
    by_level = []
    for level in range(256):
        both = [precision_recall(found, truth, level) for found, truth in filled]
        means = [sum(column) / len(filled) for column in zip(*both, strict=True)]
        by_level.append((f(*means), sum(f(*one) for one in both) / len(filled)))
    best = max(range(256), key=lambda level: by_level[level][0])
    asked = math.ceil(threshold * 255 - 1e-9)
    error = sum(float(np.abs(found - truth).mean()) for found, truth in pairs) / len(pairs)
    return Scores(
        by_level[best][0], best / 255, *by_level[asked], error, len(pairs), len(pairs) - len(filled)
    )


def random_pairs(seed, count=4):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        truth = rng.random((7, 9)) < 0.3
        pairs.append((np.clip(0.4 * truth + 0.6 * rng.random((7, 9)), 0, 1), truth))
    return pairs


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 100 / 255, 1.0])
def test_scores_are_those_of_the_definition(threshold):
    pairs = [*random_pairs(0), (np.full((5, 3), 0.25), np.zeros((5, 3), bool))]
    ours, theirs = tallied(pairs).scores(threshold), brute_force(pairs, threshold)
    assert ours.best_threshold == theirs.best_threshold
    assert (ours.images, ours.empty) == (theirs.images, theirs.empty) == (5, 1)
    for name in ("best_f", "f", "mean_f", "error"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-12)


def test_by_hand():
    # two images of four pixels; at 0.5: precision 1/2 and 1, recall 1 and 1/2
    first = np.array([[0.9, 0.6, 0.1, 0.0]]), np.array([[True, False, False, False]])
    second = np.array([[0.7, 0.2, 0.1, 0.0]]), np.array([[True, True, False, False]])
    scores = tallied([first, second]).scores(0.5)
    assert scores.f == pytest.approx(1.3 * 0.75 * 0.75 / (0.3 * 0.75 + 0.75)) == pytest.approx(0.75)
    one, other = 1.3 * 0.5 * 1 / (0.15 + 1), 1.3 * 1 * 0.5 / (0.3 + 0.5)
    assert scores.mean_f == pytest.approx((one + other) / 2)
    assert scores.error == pytest.approx(((0.1 + 0.6 + 0.1) / 4 + (0.3 + 0.8 + 0.1) / 4) / 2)
    # from just above 0.6 to 0.7: precision 1 and 1, recall 1 and 1/2
    assert scores.best_f == pytest.approx(1.3 * 0.75 / (0.3 + 0.75))
    assert scores.best_threshold == 154 / 255


def test_a_perfect_map_and_its_opposite():
    truth = np.random.default_rng(0).random((8, 8)) < 0.5
    right = tallied([(truth.astype(np.float32), truth)]).scores()
    assert (right.best_f, right.f, right.mean_f, right.error) == (1, 1, 1, 0)
    assert right.best_threshold == 1 / 255
    wrong = tallied([((~truth).astype(np.float32), truth)]).scores()
    assert (wrong.f, wrong.mean_f, wrong.error) == (0, 0, 1)
    assert wrong.best_threshold == 0  # all foreground is the best that can be done


def test_all_foreground_has_the_objects_share_as_precision():
    truth = np.zeros((10, 10), bool)
    truth[:2] = True
    scores = tallied([(np.ones((10, 10)), truth)]).scores(1.0)
    assert scores.f == scores.best_f == pytest.approx(1.3 * 0.2 / (0.3 * 0.2 + 1))


def test_a_map_of_zeros_finds_nothing():
    truth = np.ones((3, 3), bool)
    scores = tallied([(np.zeros((3, 3)), truth)]).scores(0.5)
    assert (scores.f, scores.mean_f, scores.error) == (0, 0, 1)
    assert scores.best_f == 1  # at threshold 0, where every map is all foreground


def test_a_pixel_at_the_threshold_belongs_to_the_object():
    truth = np.array([[True, False]])
    assert tallied([(np.array([[0.5, 0.4999]]), truth)]).scores(0.5).f == 1
    assert tallied([(np.array([[0.4999, 0.5]]), truth)]).scores(0.5).f == 0


def test_images_count_alike_whatever_their_size():
    small, large = random_pairs(1, 2)
    repeated = tuple(np.tile(values, (3, 2)) for values in large)
    ours, theirs = tallied([small, repeated]).scores(), tallied([small, large]).scores()
    for name in ("best_f", "best_threshold", "f", "mean_f", "error"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))


def test_images_without_an_object_count_for_the_error_alone():
    filled, empty = random_pairs(2, 1)[0], (np.full((4, 4), 0.5), np.zeros((4, 4), bool))
    alone, both = tallied([filled]).scores(), tallied([filled, empty]).scores()
    assert (both.best_f, both.f, both.mean_f) == (alone.best_f, alone.f, alone.mean_f)
    assert both.error == pytest.approx((alone.error + 0.5) / 2)
    assert (both.images, both.empty) == (2, 1)
    only = tallied([empty]).scores()
    assert all(math.isnan(v) for v in (only.best_f, only.best_threshold, only.f, only.mean_f))
    assert only.error == 0.5


def test_f_of_nothing_is_zero_and_of_all_is_one():
    zero, one = np.zeros(1), np.ones(1)
    assert f_measure(zero, zero) == f_measure(zero, one) == f_measure(one, zero) == 0
    assert f_measure(one, one) == 1


@pytest.mark.parametrize(
    ("found", "truth", "words"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2), bool), r"\(2, 3\).*\(3, 2\).*resize"),
        (np.zeros((0, 3)), np.zeros((0, 3), bool), "resize"),
        (np.full((2, 2), 255.0), np.ones((2, 2), bool), "from 0 to 1.*255.*stretch"),
        (np.full((2, 2), -0.1), np.ones((2, 2), bool), "-0.1"),
        (np.full((2, 2), np.nan), np.ones((2, 2), bool), "nan"),
        (np.zeros((2, 2)), np.full((2, 2), 255, np.uint8), "uint8"),
    ],
)
def test_what_cannot_be_scored_is_said_and_not_counted(found, truth, words):
    tally = Tally()
    with pytest.raises(UserError, match=words):
        tally.add_(found, truth)
    with pytest.raises(UserError, match="no image"):
        tally.scores()


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_threshold_outside_of_a_map(threshold):
    with pytest.raises(UserError, match="from 0 to 1"):
        tallied(random_pairs(3)).scores(threshold)
