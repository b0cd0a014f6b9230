import math

import numpy as np
import pytest
import torch

from semppl.evaluate.calibration import calibrate
from semppl.evaluate.logistic import NEVER


def two_classes(right, wrong, margin):
    """Logits that prefer class 0 by the margin, of which so many are right."""
    logits = torch.tensor([[margin, 0.0]]).repeat(right + wrong, 1)
    return logits, torch.tensor([0] * right + [1] * wrong)


def brute_force(logits, truth):
    """The least of the whole loss on a fine grid, written out."""
    z, y = logits.double().numpy(), truth.numpy()
    grid = np.arange(-10, 10, 0.001)
    losses = []
    for u in grid:
        scaled = z * np.exp(u)
        top = scaled.max(1)
        chance = scaled[np.arange(len(y)), y] - top - np.log(np.exp(scaled - top[:, None]).sum(1))
        losses.append(u**2 / 2 - np.maximum(chance, -30).sum())
    return math.exp(grid[int(np.argmin(losses))])


@pytest.mark.parametrize(
    ("right", "wrong", "margin"), [(8, 2, 5.0), (6, 4, 3.0), (90, 10, 0.2), (10, 0, 2.0)]
)
def test_the_derivative_is_zero_by_hand(right, wrong, margin):
    scale = calibrate(*two_classes(right, wrong, margin)).scale
    count = right + wrong
    share = 1 / (1 + math.exp(-scale * margin))
    # d/du of u²/2 − Σ log p at scale eᵘ: u + count · scale · margin · (p − right / count)
    slope = math.log(scale) + count * scale * margin * (share - right / count)
    assert abs(slope) < 1e-3 * max(1, count * scale * margin)


def test_many_labels_make_the_mean_probability_the_share_that_is_right():
    found = calibrate(*two_classes(7000, 3000, 4.0))
    assert found.after == pytest.approx(0.7, abs=1e-3)
    assert found.before == pytest.approx(1 / (1 + math.exp(-4)), abs=1e-6)
    assert (found.labels, found.right) == (10_000, 7000)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stretch", [0.01, 0.5, 1, 8])
def test_as_brute_force_finds_it(seed, stretch):
    draw = torch.Generator().manual_seed(seed)
    logits = stretch * torch.randn(40, 5, generator=draw)
    logits[range(40), torch.arange(40) % 5] += stretch * 1.5
    found = calibrate(logits, torch.arange(40) % 5)
    assert found.scale == pytest.approx(brute_force(logits, torch.arange(40) % 5), rel=2e-3)


@pytest.mark.parametrize("planted", [0.05, 0.4, 1.0, 30.0])
def test_a_planted_scale_is_found(planted):
    draw = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20_000, 6, generator=draw)
    truth = torch.multinomial(logits.softmax(1), 1, generator=draw).squeeze(1)
    assert calibrate(logits / planted, truth).scale == pytest.approx(planted, rel=0.05)


def test_few_labels_that_are_all_right_leave_it_near_one():
    found = calibrate(*two_classes(10, 0, 4.0))
    # ln s = 10 · 4 s · (1 − p) with p = 0.9948 of the answers
    assert found.scale == pytest.approx(1.3138, abs=1e-3)
    assert found.after == pytest.approx(0.9948, abs=1e-4)


def test_one_label_changes_little_and_none_is_refused():
    assert 0.3 < calibrate(*two_classes(0, 1, 2.0)).scale < 1
    assert "on 1 label as answered" in calibrate(*two_classes(0, 1, 2.0)).describe()
    assert 1 < calibrate(*two_classes(1, 0, 2.0)).scale < 1.4
    with pytest.raises(ValueError, match="0 labels"):
        calibrate(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))


def test_all_wrong_is_sure_of_little():
    found = calibrate(*two_classes(0, 50, 3.0))
    assert found.after < 0.6 < found.before


def test_equal_logits_stay_as_they_are():
    found = calibrate(torch.ones(20, 4), torch.arange(20) % 4)
    assert found.scale == pytest.approx(1, abs=1e-4)
    assert found.before == found.after == pytest.approx(0.25)


def test_logits_next_to_nothing_are_not_taken_for_a_minimum():
    logits = 1e-3 * torch.nn.functional.one_hot(torch.arange(100) % 10, 10)
    found = calibrate(logits, torch.arange(100) % 10)
    assert found.after > 0.5, "near 1 the loss has a minimum of its own, by the prior"


def test_a_class_that_is_never_answered_costs_a_bounded_loss():
    logits = torch.tensor([[3.0, 0.0, NEVER]]).repeat(50, 1)
    truth = torch.tensor([0] * 45 + [1] * 4 + [2])
    with_it, without = calibrate(logits, truth), calibrate(logits[:-1], truth[:-1])
    assert with_it.scale == pytest.approx(without.scale, rel=1e-3)
    assert with_it.labels == 50


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_stays_as_it_is(bad):
    logits = torch.tensor([[1.0, 0.0], [bad, 0.0]])
    found = calibrate(logits, torch.tensor([0, 0]))
    assert found.scale == 1
    assert math.isfinite(found.after)


def test_a_wrong_number_of_labels_is_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\) logits do not fit 1 labels"):
        calibrate(torch.zeros(2, 3), torch.zeros(1, dtype=torch.long))


def test_in_words():
    words = calibrate(*two_classes(7, 3, 4.0)).describe()
    assert (
        "chosen on 10 labels as answered without having seen them (7 right; mean probability 98.2 % before, "
        in words
    )
