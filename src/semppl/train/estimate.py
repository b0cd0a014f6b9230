"""How long a step takes here, and which batch fits: found by trying, before a run is planned."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch

from semppl.config import Config
from semppl.core.errors import RunError
from semppl.data.dataset import Dataset
from semppl.train.build import Training, build_training
from semppl.train.device import free_memory_, wait_for
from semppl.train.prepare import resolved_for

# steps that a recorded step needs before it is one, and one more
_WARM_UP: Final = {"eager": 1, "graph": 5, "compile": 5}
_LEAST_BATCH: Final = 16

Build = Callable[[Config, Dataset, torch.device], Training]


@dataclass(frozen=True)
class Estimate:
    """What was found out."""

    batch_size: int
    seconds_per_step: float


def estimate(
    config: Config,
    dataset: Dataset,
    device: torch.device,
    *,
    fixed_batch: bool = False,
    build: Build = build_training,
) -> Estimate:
    """Try a few steps; where memory is too small for the batch, try half of it, unless it is the user's.

    Compiled runs are tried uncompiled, because compiling would take longer than everything else here: they
    end sooner than estimated.
    """
    speed = "graph" if config.speed in ("auto", "compile") else config.speed
    config = resolved_for(replace(config, epochs=config.epochs or 1.0, speed=speed), dataset)
    while True:
        try:
            return Estimate(config.images_per_step, _seconds_per_step(build(config, dataset, device)))
        except torch.OutOfMemoryError as error:
            smaller = config.images_per_step // 2
            if smaller < _LEAST_BATCH or fixed_batch:
                raise RunError(
                    f"the memory of {device} is too small even for {config.images_per_step} images at a "
                    "time: use smaller views (--views.large-size), a smaller --encoder or --batch-size"
                ) from error
            config = replace(config, batch_size=smaller)
        finally:
            free_memory_(device)


def _seconds_per_step(training: Training, least: float = 1.0, most_steps: int = 50) -> float:
    """Over a second or more, after the first steps."""
    step = 0
    try:
        for step in range(_WARM_UP[training.speed]):
            training.step(training.feed(step))
        wait_for(training.device)
        start, done = time.perf_counter(), 0
        while done < 2 or (time.perf_counter() - start < least and done < most_steps):
            training.step(training.feed(step + 1 + done))
            done += 1
            wait_for(training.device)
        return (time.perf_counter() - start) / done
    finally:
        training.feed.close()
