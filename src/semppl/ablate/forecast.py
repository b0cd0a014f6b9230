"""How long the cells will take, measured on a few steps of each kind before they start."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from semppl.ablate.cell import Cell, steps_done
from semppl.ablate.plan import Plan, Shelf
from semppl.ablate.work import threads_for
from semppl.config import Config
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

    def __str__(self) -> str:
        at_a_time = "one at a time" if self.jobs == 1 else f"{self.jobs} at a time"
        return (
            f"{self.cells} {'cell' if self.cells == 1 else 'cells'} to train, {at_a_time}: about "
            f"{duration(self.seconds)} of pre-training, by measured steps; evaluation comes on top"
        )


def seconds_per_step(config: Config, dataset: Dataset, device: torch.device) -> float:
    """By trying."""
    return estimate(config, dataset, device, fixed_batch=True).seconds_per_step


def forecast(
    plan: Plan,
    cells: Sequence[Cell],
    shelf: Shelf,
    device: torch.device,
    jobs: int,
    measure: Measure = seconds_per_step,
) -> Forecast:
    """Cells that differ in seed, length or number of labels have the same step, which is measured once."""
    known: dict[Config, float] = {}
    times = []
    with _threads(threads_for(jobs)):
        for cell in cells:
            kind = _kind(cell.config, plan.base)
            if kind not in known:
                known[kind] = measure(kind, shelf.get(kind), device)
            times.append(known[kind] * (cell.steps - steps_done(cell)))
    # a GPU does not get faster because several cells share it
    shared = min(jobs, max(torch.cuda.device_count(), 1)) if device.type == "cuda" else jobs
    return Forecast(max(sum(times) / shared, max(times, default=0.0)), len(cells), jobs)


def _kind(config: Config, base: Config) -> Config:
    method = replace(config.method, alpha=base.method.alpha)
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
