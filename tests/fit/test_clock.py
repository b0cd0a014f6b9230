import pytest
import torch

from semppl.fit import clock as module
from semppl.fit.clock import StepClock


@pytest.mark.parametrize(
    ("device", "times", "seconds"),
    [
        ("cpu", [100.0, 101.0, 102.0, 104.0], 4 / 3),
        # three as they are, one that is recorded, three that are replayed
        ("cuda", [100.0, 101.0, 102.0, 132.0, 132.25, 132.5, 132.75], 0.25),
    ],
)
def test_steps_that_warm_up_do_not_count(device, times, seconds, monkeypatch):
    monkeypatch.setattr(module, "wait_for", lambda device: None)
    now = iter(times)
    clock = StepClock(torch.device(device), now=lambda: next(now))
    assert clock.steps == len(times)
    for step in range(clock.steps):
        clock.tick(step)
    assert clock.seconds == pytest.approx(seconds)


def test_too_few_steps_give_what_they_can(monkeypatch):
    monkeypatch.setattr(module, "wait_for", lambda device: None)
    now = iter([1.0, 3.0])
    clock = StepClock(torch.device("cuda"), now=lambda: next(now))
    clock.tick(1)
    clock.tick(2)
    assert clock.seconds == 2.0
