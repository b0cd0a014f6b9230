"""One device, tried: how fast steps are and which batch fits.

On a GPU every batch in question is tried. A CPU may be too slow for that, so two small ones are measured and
lines through both say the rest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
from rich.console import Console

from semppl.doctor.largest import largest_fitting, safe_batch
from semppl.doctor.memory import free_memory
from semppl.doctor.probe import Steps, loader_alone, through, time_steps, tried
from semppl.doctor.settings import DoctorFlags
from semppl.doctor.subject import Subject
from semppl.train.build import Training
from semppl.train.progress import StageProgress

# where a GPU's search begins, and of how many images a CPU's first step is
_START: Final = 256
FEW: Final = 2
# beside the probe itself
SHORT_STEPS: Final = 5
SHORT_SECONDS: Final = 4.0
# of a GPU's memory: a batch is safe that leaves a tenth
_SAFE: Final = 0.9

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What was found out about one device."""

    steps: Steps
    """The probe itself."""
    few: Steps | None = None
    """Of a CPU: the smaller of the two points."""
    largest: int
    """Images that fit."""
    refused: bool
    """Whether more did not fit; otherwise nobody asked."""
    loader: float | None = None
    """Images per second of the reading alone, where images are files; next, of the device alone."""
    device: float | None = None


@dataclass(frozen=True)
class Trial:
    """A subject on a device."""

    subject: Subject
    device: torch.device
    flags: DoctorFlags
    console: Console
    say: Say

    def attempt(
        self, batch: int, *, parts: int | None = None, compiled: bool = True, **how: Any
    ) -> Steps | None:
        """Some steps, or None where the memory is too small."""
        config = self.subject.to_try(batch, parts, compiled=compiled)
        return tried(config, self.subject.dataset, self.device, partial(time_steps, **how))

    def probe(self) -> Probed | None:
        """None where not even two images fit."""
        return self._probe_gpu() if self.device.type == "cuda" else self._probe_cpu()

    def _probe_gpu(self) -> Probed | None:
        batch, free, began = self._batch, free_memory(self.device), time.perf_counter()
        asked = [0]

        def fits(size: int) -> bool:
            self.say(f"do {size:,} images fit?")
            asked.append(size)
            seen = self.attempt(size, compiled=False, steps=1, seconds=0.0)
            return seen is not None and seen.peak <= _SAFE * free

        def enough() -> bool:
            # the run's own batch is tried in any case
            return asked[-1] >= batch and time.perf_counter() - began > self.flags.seconds

        most = min(16 * batch, self.subject.num_images)
        largest, refused = largest_fitting(fits, min(batch, _START), most, enough)
        if largest < batch < 2 * largest and fits(batch):
            largest = batch
        if not largest:
            return None
        return self._probed(min(batch, largest), (largest, refused))

    def _probe_cpu(self) -> Probed | None:
        free, points = free_memory(self.device), self._growing()
        if not points:
            return None
        few, many = points[0], max(points[-1].images, 2 * FEW)
        probed = self._probed(many, (many, False), few)
        if probed is None:
            return None
        largest = safe_batch((few.images, few.peak), (many, probed.steps.peak), free)
        most = max(self.subject.num_images, self._batch)
        return replace(probed, largest=min(largest, most), refused=largest < most)

    def _growing(self) -> list[Steps]:
        """Batches of 2, 8, 32 … images up to the real one, as long as they promise to take little time.

        Weights and queue take theirs however few images there are, so few say little about many.
        """
        points: list[Steps] = []
        size, promised, allowed = FEW, 0.0, self.flags.seconds / 8
        while (not points or size > points[-1].images) and promised <= allowed:
            self.say(f"a step of {size:,} images")
            seen = self.attempt(size, steps=SHORT_STEPS, seconds=SHORT_SECONDS)
            if seen is None:
                break
            points.append(seen)
            size = min(4 * size, max(self._batch, FEW))
            before = points[-2] if len(points) > 1 else None
            promised = 4 * seen.median if before is None else through(before, seen, size)
        return points

    def _probed(self, batch: int, fitting: tuple[int, bool], few: Steps | None = None) -> Probed | None:
        self.say(f"{self.flags.steps} steps of {batch:,} images")
        found = tried(self.subject.to_try(batch), self.subject.dataset, self.device, self._steps_of)
        if found is None:
            return None
        steps, loader, alone = found
        largest, refused = fitting
        return Probed(steps=steps, few=few, largest=largest, refused=refused, loader=loader, device=alone)

    def _steps_of(self, training: Training) -> tuple[Steps, float | None, float | None]:
        """The steps themselves; of files also the reading and the device, each alone."""
        with StageProgress(self.console, "probe, %", 100) as bar:
            steps = time_steps(
                training,
                steps=self.flags.steps,
                seconds=self.flags.seconds,
                advance=lambda share: bar.advance(round(100 * share)),
            )
        loader = loader_alone(training, seconds=SHORT_SECONDS)
        if loader is None:
            return steps, None, None
        alone = time_steps(training, fed=False, steps=SHORT_STEPS, seconds=SHORT_SECONDS)
        return steps, loader, alone.images_per_second

    @property
    def _batch(self) -> int:
        return self.subject.config.images_per_step
