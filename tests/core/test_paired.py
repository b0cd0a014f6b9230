import math

import pytest

from semppl.core.paired import Difference, difference, sign_of, signed, unpaired


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


def test_seeds_without_a_partner_have_the_error_of_two_means():
    # variances 2 and 8 of two values each: √(2/2 + 8/2)
    found = unpaired([10.0, 12.0], [5.0, 9.0])
    assert found == Difference(4.0, pytest.approx(math.sqrt(5)), 2)
    assert unpaired([10.0, 12.0], [5.0]) == Difference(6.0, None, 1)
    assert unpaired([], [5.0]) is None
    assert unpaired([5.0], []) is None


def test_a_minus_as_in_print():
    assert (signed(-1.25), signed(2)) == ("−1.2", "+2.0")


def test_signs_of_nothing_and_of_a_little():
    assert [sign_of(value, 0.1) for value in (-0.2, -0.1, 0.0, 0.1, 0.2)] == [-1, 0, 0, 0, 1]
