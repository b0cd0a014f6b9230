import math

import pytest
import torch

from semppl.evaluate.metrics import (
    bootstrap,
    confusion_matrix,
    expected_calibration_error,
    measure_answers,
    top_k,
)


def test_all_numbers_of_a_small_case_by_hand():
    # two images of class 0, one right; one of class 1, right; class 2 does not occur
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    found = measure_answers(logits, torch.tensor([0, 0, 1]), classes=3)
    assert found.top1 == pytest.approx(2 / 3)
    assert found.top5 == 1.0
    assert found.mean_per_class == pytest.approx(0.75)
    assert found.per_class == ((2, 0.5), (1, 1.0), (0, None))
    assert found.confusion == ((1, 0, 1), (0, 1, 0), (0, 0, 0))
    assert found.as_json()["per_class"][2] == {"images": 0, "accuracy": None}


def test_top_k_counts_the_class_among_the_largest():
    logits = torch.tensor([[6.0, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]])
    assert [top_k(logits, torch.tensor([0, 0]), k) for k in range(1, 7)] == [0.5] * 5 + [1.0]
    assert top_k(logits, torch.tensor([4, 1]), 5) == 1.0
    # all equal: the lower classes are taken first
    assert top_k(torch.zeros(6, 6), torch.arange(6), 2) == pytest.approx(2 / 6)
    assert top_k(torch.zeros(6, 6), torch.arange(6), 1) == pytest.approx(1 / 6)


def test_a_confusion_matrix_against_counting():
    rng = torch.Generator().manual_seed(0)
    answer, truth = torch.randint(4, (2, 50), generator=rng)
    matrix = confusion_matrix(answer, truth, 4)
    for t in range(4):
        for a in range(4):
            assert matrix[t, a] == ((truth == t) & (answer == a)).sum()


def test_the_calibration_error_by_hand():
    # bins of a fifteenth: 0.62 and 0.66 share the tenth (0.6 to 0.667), 0.9 is alone
    probability = torch.tensor([[0.62, 0.38], [0.66, 0.34], [0.1, 0.9]]).double()
    truth = torch.tensor([0, 1, 1])
    expected = (abs(1 - (0.62 + 0.66)) + abs(1 - 0.9)) / 3
    assert expected_calibration_error(probability, truth) == pytest.approx(expected)


def test_certain_and_right_is_calibrated_and_certain_and_wrong_is_not():
    certain = torch.eye(3).double()
    assert expected_calibration_error(certain, torch.arange(3)) == 0
    assert expected_calibration_error(certain, torch.tensor([1, 2, 0])) == 1


def test_the_interval_is_that_of_a_binomial():
    right = torch.arange(1000) < 700
    (low, high), mean = bootstrap(right, torch.zeros(1000, dtype=torch.long), 1, seed=1)
    half = 1.96 * math.sqrt(0.7 * 0.3 / 1000)
    assert low == pytest.approx(0.7 - half, abs=0.006)
    assert high == pytest.approx(0.7 + half, abs=0.006)
    assert mean == (low, high), "one class"


def test_the_interval_of_the_mean_over_classes_is_wide_where_a_class_is_small():
    truth = torch.cat([torch.zeros(990, dtype=torch.long), torch.ones(10, dtype=torch.long)])
    right = torch.arange(1000) % 2 == 0
    top1, mean = bootstrap(right, truth, 3)
    assert mean[1] - mean[0] > 3 * (top1[1] - top1[0])
    # brute force over the images themselves
    rng = torch.Generator().manual_seed(0)
    values = []
    for _ in range(500):
        picked = torch.randint(1000, (1000,), generator=rng)
        shares = [right[picked][truth[picked] == c].double().mean() for c in (0, 1)]
        values.append(torch.stack([s for s in shares if not s.isnan()]).mean())
    low, high = torch.stack(values).quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    assert mean == (pytest.approx(low, abs=0.03), pytest.approx(high, abs=0.03))


def test_resamples_are_a_function_of_the_seed_and_of_nothing_else():
    right, truth = torch.arange(40) % 3 > 0, torch.arange(40) % 4
    state = torch.get_rng_state()
    one, same, other = (bootstrap(right, truth, 4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert one == same
    assert one != other


def test_all_right_or_all_wrong_leaves_no_doubt():
    truth = torch.arange(6) % 3
    right = measure_answers(torch.eye(3)[truth], truth, classes=3)
    assert (right.top1, right.top1_interval) == (1.0, (1.0, 1.0))
    wrong = measure_answers(torch.eye(3)[(truth + 1) % 3], truth, classes=3)
    assert (wrong.top1, wrong.mean_per_class_interval) == (0.0, (0.0, 0.0))


def test_chance_on_random_logits():
    rng = torch.Generator().manual_seed(0)
    found = measure_answers(torch.randn(4000, 10, generator=rng), torch.arange(4000) % 10, classes=10)
    assert found.top1 == pytest.approx(0.1, abs=0.015)
    assert found.top5 == pytest.approx(0.5, abs=0.03)
    assert found.top1_interval[0] < found.top1 < found.top1_interval[1]


def test_votes_of_minus_infinity_are_logits_too():
    logits = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    assert measure_answers(logits, torch.tensor([0, 1]), classes=2).calibration_error == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="do not fit"):
        measure_answers(torch.zeros(3, 2), torch.zeros(2, dtype=torch.long), classes=2)


def test_a_network_that_diverged_is_wrong_and_no_failure():
    logits = torch.tensor([[torch.nan, torch.nan], [torch.nan, torch.nan]])
    found = measure_answers(logits, torch.tensor([0, 1]), classes=2)
    assert (found.top1, found.calibration_error) == (0.5, 0.0)
