"""How long the cells will take: the start of a process and a few steps of each kind are measured before."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from semppl.ablate.cell import Cell
from semppl.ablate.plan import Shelf
from semppl.ablate.work import threads_for, work
from semppl.config import Config
from semppl.core.counted import counted
from semppl.data.dataset import Dataset
from semppl.train.estimate import estimate

Measure = Callable[[Config, Dataset, torch.device], float]
"""Seconds of a step."""


@dataclass(frozen=True)
class Forecast:
    """Of the cells that are left."""

    seconds: float
    cells: int
    jobs: int
    evaluated: bool = False
    """Whether evaluation is in it, as long as it took in finished cells."""

    def __str__(self) -> str:
        at_a_time = "one at a time" if self.jobs == 1 else f"{self.jobs} at a time"
        inside, outside = "start and measured steps", "reading data, exhibit and evaluation"
        if self.evaluated:
            inside, outside = "start, measured steps and evaluation", "reading data and exhibit"
        return (
            f"{counted(self.cells, 'cell')} to go, {at_a_time}: about "
            f"{duration(self.seconds)} for {inside}; {outside} come on top"
        )


def seconds_per_step(config: Config, dataset: Dataset, device: torch.device) -> float:
    """By trying."""
    return estimate(config, dataset, device, fixed_batch=True).seconds_per_step


def seconds_to_start() -> float:
    """What the process of a cell takes before it does anything."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {work.__module__}"], check=True, capture_output=True)
    return time.monotonic() - start


def forecast(
    base: Config,
    left: Sequence[tuple[Cell, int]],
    shelf: Shelf,
    device: torch.device,
    jobs: int,
    evaluation: float | None = None,
    *,
    start: Callable[[], float] = seconds_to_start,
    measure: Measure = seconds_per_step,
) -> Forecast:
    """Of cells with the steps they have to go, and the seconds of an evaluation where they are known.

    Cells that differ in seed, length or number of labels have the same step, which is measured once. On a GPU
    so have cells that differ in the method: networks take all but a few per cent of it (docs/performance.md).
    """
    known: dict[Config, float] = {}
    beside, times = start() + (evaluation or 0.0), []
    with _threads(threads_for(jobs)):
        for cell, steps in left:
            kind = _kind(cell.config, base, device)
            if steps and kind not in known:
                known[kind] = measure(kind, shelf.get(kind), device)
            times.append(beside + (known[kind] * steps if steps else 0.0))
    # a GPU does not get faster because several cells share it
    shared = min(jobs, max(torch.cuda.device_count(), 1)) if device.type == "cuda" else jobs
    seconds = max(sum(times) / shared, max(times, default=0.0))
    return Forecast(seconds, len(left), jobs, evaluation is not None)


def _kind(config: Config, base: Config, device: torch.device) -> Config:
    method = base.method if device.type == "cuda" else replace(config.method, alpha=base.method.alpha)
    return replace(config, seed=base.seed, epochs=base.epochs, data=base.data, method=method)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """As many as a cell will have."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def duration(seconds: float) -> str:
    """In the unit that fits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
