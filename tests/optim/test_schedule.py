import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semppl.optim.schedule import target_decay, warmup_cosine

_PAPER = {"peak": 4.8, "warmup": 3127, "total": 93_835}


def test_the_papers_rate_at_its_turning_points():
    assert warmup_cosine(0, **_PAPER) == 0.0
    assert warmup_cosine(1, **_PAPER) == pytest.approx(4.8 / 3127)
    assert warmup_cosine(3126, **_PAPER) == pytest.approx(4.8 * 3126 / 3127)
    assert warmup_cosine(3127, **_PAPER) == 4.8
    assert warmup_cosine(3127 + (93_835 - 3127) // 2, **_PAPER) == pytest.approx(2.4)
    assert 0 < warmup_cosine(93_834, **_PAPER) < 1e-8
    assert warmup_cosine(93_835, **_PAPER) == pytest.approx(0.0, abs=1e-15)


def test_a_short_schedule_by_hand():
    rates = [warmup_cosine(step, peak=2.0, warmup=2, total=6) for step in range(7)]
    half = math.sqrt(0.5)
    assert rates == pytest.approx([0.0, 1.0, 2.0, 1 + half, 1.0, 1 - half, 0.0], abs=1e-12)


def test_without_warm_up_the_first_step_has_the_peak():
    assert warmup_cosine(0, peak=0.3, warmup=0, total=10) == 0.3
    assert warmup_cosine(5, peak=0.3, warmup=0, total=10) == pytest.approx(0.15)


def test_after_the_end_the_rate_stays_zero():
    assert warmup_cosine(11, peak=1.0, warmup=3, total=10) == pytest.approx(0.0, abs=1e-15)
    assert warmup_cosine(1000, peak=1.0, warmup=3, total=10) == pytest.approx(0.0, abs=1e-15)


def test_a_run_that_is_all_warm_up_ends_at_the_peak():
    rates = [warmup_cosine(step, peak=1.0, warmup=4, total=4) for step in range(5)]
    assert rates == [0.0, 0.25, 0.5, 0.75, 1.0]


@settings(deadline=None, max_examples=50)
@given(warmup=st.integers(0, 20), decay=st.integers(1, 60), peak=st.floats(1e-3, 10))
def test_the_rate_rises_to_the_peak_and_falls_after_it(warmup, decay, peak):
    total = warmup + decay
    rates = [warmup_cosine(step, peak=peak, warmup=warmup, total=total) for step in range(total + 1)]
    assert max(rates) == rates[warmup] == peak
    assert all(a < b for a, b in itertools.pairwise(rates[: warmup + 1]))
    assert all(a > b for a, b in itertools.pairwise(rates[warmup:]))
    assert min(rates) >= 0


@pytest.mark.parametrize("step", [0, 1, 50, 100, 1000])
def test_the_papers_decay_of_the_target_is_constant(step):
    assert target_decay(step, base=0.996, total=100) == 0.996


def test_byols_decay_of_the_target_starts_at_its_base_and_ends_at_one():
    decays = [target_decay(step, base=0.99, total=4, schedule="cosine") for step in range(6)]
    root = math.sqrt(0.5)
    expected = [0.99, 1 - 0.005 * (1 + root), 0.995, 1 - 0.005 * (1 - root), 1.0, 1.0]
    assert decays == pytest.approx(expected, abs=1e-12)


def test_byols_decay_only_grows():
    decays = [target_decay(step, base=0.9, total=50, schedule="cosine") for step in range(51)]
    assert all(a < b for a, b in itertools.pairwise(decays))
