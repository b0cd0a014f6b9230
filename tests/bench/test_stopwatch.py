import pytest
import torch

import semppl.bench.stopwatch as stopwatch
from semppl.bench.stopwatch import Stopwatch, milliseconds, peak_memory

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until somebody passes the time."""

    class Clock:
        now = 100.0

        def sleep(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: clock.now)
    return clock


def test_a_timing_warms_up_and_then_counts_every_call(clock):
    calls = []

    def call():
        calls.append(1)
        clock.sleep(0.002 if len(calls) > 2 else 5.0)

    assert milliseconds(call, CPU, steps=4, rounds=3, warm_up=2) == pytest.approx(2.0)
    assert len(calls) == 2 + 4 * 3


def test_the_median_of_the_rounds_is_taken(clock):
    waits = iter([9.0, 0.002, 7.0, 0.004])
    call = lambda: clock.sleep(next(waits))  # noqa: E731
    assert milliseconds(call, CPU, steps=1, rounds=3, warm_up=1) == pytest.approx(4.0)


def test_phases_lie_between_marks_and_come_in_the_order_of_the_step(clock):
    watch = Stopwatch(CPU)
    for first in (0.001, 0.004, 0.009):
        watch.mark("begin")
        clock.sleep(first)
        watch.mark("first")
        clock.sleep(0.5)
        watch.mark("second")
        watch.read_()
        clock.sleep(3.0)
    phases = watch.medians()
    assert list(phases) == ["first", "second"]
    assert phases == pytest.approx({"first": 4.0, "second": 500.0})


def test_a_step_that_is_not_read_leaves_nothing_behind(clock):
    watch = Stopwatch(CPU)
    for lasting in (0.7, 0.001):
        watch.mark("begin")
        clock.sleep(lasting)
        watch.mark("work")
    watch.read_()
    assert watch.medians() == pytest.approx({"work": 1.0})


def test_the_memory_of_a_process_is_known():
    with peak_memory(CPU) as peak:
        pass
    assert peak() > 50
