import time

import torch

from semppl.bench.stopwatch import Stopwatch, milliseconds, peak_memory

CPU = torch.device("cpu")


def test_a_timing_warms_up_and_then_counts_every_call():
    calls = []
    ms = milliseconds(lambda: calls.append(time.sleep(0.002)), CPU, steps=4, rounds=3, warm_up=2)
    assert len(calls) == 2 + 4 * 3
    assert ms >= 2.0


def test_the_median_of_the_rounds_is_taken():
    waits = iter([0.0, 0.02, 0.0, 0.0])
    assert milliseconds(lambda: time.sleep(next(waits)), CPU, steps=1, rounds=3, warm_up=1) < 10


def test_phases_lie_between_marks_and_come_in_the_order_of_the_step():
    watch = Stopwatch(CPU)
    for _ in range(3):
        watch.mark("start")
        time.sleep(0.004)
        watch.mark("first")
        watch.mark("second")
        watch.read_()
    phases = watch.medians()
    assert list(phases) == ["first", "second"]
    assert phases["first"] >= 4.0 > phases["second"]


def test_the_memory_of_a_process_is_known():
    with peak_memory(CPU) as peak:
        pass
    assert peak() > 50
