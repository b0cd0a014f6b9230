import pytest
import torch

from semppl.fit.clock import StepClock


def test_the_first_step_does_not_count():
    times = iter([100.0, 101.0, 102.0, 104.0])
    clock = StepClock(torch.device("cpu"), now=lambda: next(times))
    for step in range(StepClock.steps):
        clock.tick(step)
    assert clock.seconds == pytest.approx(4 / 3)
