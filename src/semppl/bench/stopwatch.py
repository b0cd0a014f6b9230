"""Clocks and a gauge: the device's events for phases of a step, the host's clock around many steps."""

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import final

import torch


def synchronise(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(
    call: Callable[[], object], device: torch.device, *, steps: int, rounds: int, warm_up: int = 3
) -> float:
    """Median over `rounds` of the mean time of `steps` calls in a row, after `warm_up` calls."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(rounds):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(steps):
            call()
        synchronise(device)
        times.append((time.perf_counter() - start) / steps * 1e3)
    return median(times)


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Callable[[], float]]:
    """Megabytes: on a GPU the highest above what is held now; on a CPU the highest of the process so far."""
    gc.collect()
    if device.type == "cpu":
        yield lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return
    synchronise(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    held = torch.cuda.memory_allocated(device)
    yield lambda: (torch.cuda.max_memory_allocated(device) - held) / 2**20


@final
class Stopwatch:
    """`mark(name)` ends the phase `name`; `read_` adds up the phases of one step, `medians` sums them up.

    On a GPU a mark is an event of the device, also inside a recorded step, where it is part of the recording.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: dict[str, float | torch.cuda.Event] = {}
        self._phases: dict[str, list[float]] = {}

    def mark(self, name: str) -> None:
        """The phase is over."""
        if self._device.type == "cpu":
            self._marks.pop(name, None)
            self._marks[name] = time.perf_counter()
            return
        event = self._marks.get(name)
        if not isinstance(event, torch.cuda.Event):
            event = torch.cuda.Event(enable_timing=True, external=True)
            self._marks[name] = event
        event.record(torch.cuda.current_stream(self._device))

    def read_(self) -> None:
        """Take down the step that is over; the first mark is where it began."""
        synchronise(self._device)
        names = list(self._marks)
        for before, name in pairwise(names):
            start, end = self._marks[before], self._marks[name]
            if isinstance(start, torch.cuda.Event) and isinstance(end, torch.cuda.Event):
                lasted = start.elapsed_time(end)
            elif isinstance(start, float) and isinstance(end, float):
                lasted = (end - start) * 1e3
            else:
                raise TypeError("marks of one step come from one clock")
            self._phases.setdefault(name, []).append(lasted)

    def medians(self) -> dict[str, float]:
        """Milliseconds of each phase, in the order of the step."""
        return {name: median(times) for name, times in self._phases.items()}
