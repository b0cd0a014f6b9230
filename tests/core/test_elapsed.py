import pytest

from semppl.core import elapsed


def training_seconds(lines, images_per_step):
    rows = ({"step": step} | ({} if speed is None else {"images_per_second": speed}) for step, speed in lines)
    return elapsed.training_seconds(rows, images_per_step)


def test_each_part_has_its_own_speed():
    # 2 steps of 16 images at 16 a second, 4 at 64
    assert training_seconds([(2, 16.0), (6, 64.0)], 16) == pytest.approx(2 + 1)
    assert training_seconds([(10, 50.0), (20, 100.0), (30, 100.0)], 10) == pytest.approx(2 + 1 + 1)


def test_a_slow_half_counts_in_full_where_a_median_would_forget_it():
    lines = [(step, 1.0 if step <= 40 else 100.0) for step in range(1, 101)]
    assert training_seconds(lines, 1) == pytest.approx(40 + 0.6)


def test_lines_without_speed_belong_to_the_next_one():
    assert training_seconds([(4, None), (5, 0.0), (10, 10.0)], 1) == pytest.approx(1.0)


def test_a_step_that_comes_again_counts_once():
    assert training_seconds([(5, 1.0), (5, 1.0), (4, 1.0), (10, 1.0)], 1) == pytest.approx(10)


def test_no_lines_are_no_time():
    assert training_seconds([], 512) == 0
