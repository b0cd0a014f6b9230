import math

import pytest

from semppl.ablate.direction import SAME_TOP1, Difference, difference, signed, verdict


def test_the_error_is_of_paired_differences():
    found = difference([50.0, 61.0, 70.0], [49.0, 59.0, 67.0])
    assert found.mean == pytest.approx(2.0)
    assert found.error == pytest.approx(1.0 / math.sqrt(3))
    assert found.seeds == 3
    assert str(found) == "+2.0 ± 0.6"


def test_one_seed_has_no_error_and_none_has_no_difference():
    assert difference([50.0], [49.0]) == Difference(1.0, None, 1)
    assert difference([], []) is None


@pytest.mark.parametrize(
    ("mean", "error", "seeds", "sign"),
    [
        (2.9, 1.0, 3, 0),  # below the quantile of two degrees of freedom, 2.92
        (-2.95, 1.0, 3, -1),
        (6.3, 1.0, 2, 0),
        (6.4, 1.0, 2, 1),
        (1.82, 1.0, 50, 1),
        (0.0, 0.0, 4, 0),
        (1.0, 0.0, 2, 1),
        (-9.0, None, 1, 0),
    ],
)
def test_chance(mean, error, seeds, sign):
    assert Difference(mean, error, seeds).sign == sign


CLEAR, LOSS, VAGUE = Difference(3.0, 0.5, 3), Difference(-3.0, 0.5, 3), Difference(1.0, 2.0, 3)


@pytest.mark.parametrize(
    ("ours", "paper", "words"),
    [
        (CLEAR, [1.1], "agrees"),
        (LOSS, [-6.6, -4.9], "agrees"),
        (LOSS, [0.2], "the other way"),
        (VAGUE, [1.1], "too close to tell (it may be chance)"),
        (VAGUE, [0.1], "too close to tell (the paper sees no difference either)"),
        (CLEAR, [-0.1], "differs (the paper sees no difference)"),
        (CLEAR, [-0.1, 2.0], "agrees"),
        (CLEAR, [-1.0, 2.0], "too close to tell (the paper has it both ways)"),
        (CLEAR, [], "not in the paper"),
        (None, [1.0], "missing (no seed has both rows)"),
        (Difference(9.0, None, 1), [1.0], "one seed cannot tell"),
        (Difference(-9.0, None, 1), [1.0], "one seed cannot tell"),
        (Difference(9.0, None, 1), [], "not in the paper"),
    ],
)
def test_verdicts(ours, paper, words):
    assert str(verdict(ours, paper, SAME_TOP1)) == words


def test_a_minus_as_in_print():
    assert (signed(-1.25), signed(2)) == ("−1.2", "+2.0")
