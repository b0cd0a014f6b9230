import math
from dataclasses import replace

import pytest

from semppl.config import Config, OptimConfig
from semppl.core.errors import UserError
from semppl.core.numbers import check_numbers


def test_what_can_be_used_is_taken():
    check_numbers(Config())
    check_numbers(object())


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named_by_its_flag(number):
    config = replace(Config(), optim=replace(OptimConfig(), base_lr=number))
    with pytest.raises(UserError, match=rf"^--optim\.base-lr is {number}: it must be a finite number$"):
        check_numbers(config)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_are_those_that_every_library_takes(seed):
    with pytest.raises(UserError, match=f"^--seed is {seed}: it must be at least 0 and below 4294967296$"):
        check_numbers(replace(Config(), seed=seed))
    check_numbers(replace(Config(), seed=2**32 - 1))
