"""A few steps of training as it would be, timed. Nothing that anybody keeps is trained."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final, TypeVar

import torch

from semppl.config import Config, required
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.streaming import StreamingFeed
from semppl.doctor.memory import forget_peak_, peak_memory
from semppl.method.negatives import draw_negatives
from semppl.method.positives import sample_positives
from semppl.nets.heads import unit
from semppl.train.build import Training, build_step, build_training
from semppl.train.device import free_memory_, wait_for
from semppl.train.objectives import build_objective

# on a GPU the steps before one is recorded, and one more
_WARM_UP: Final = {"cpu": 1, "cuda": 5}
# seconds after which one round has to do
_LONG: Final = 0.5
# rows that a worker of the streaming feed has ready at most: two parts of 16
_READY: Final = 32

T = TypeVar("T")
Build = Callable[[Config, Dataset, torch.device], Training]
Advance = Callable[[float], None]
"""Hears which share is done."""


def _silent(share: float) -> None:
    """Nobody looks."""


@dataclass(frozen=True)
class Steps:
    """What was seen of some steps."""

    images: int
    seconds: tuple[float, ...]
    waiting: float
    """Share of the time spent on getting the next batch."""
    peak: int
    """Bytes."""

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return median(self.seconds)

    @property
    def images_per_second(self) -> float:
        """At the median."""
        return self.images / self.median


def through(few: Steps, many: Steps, rows: int) -> float:
    """Seconds for so many images by the line through two measurements, or by the larger one alone where they
    contradict each other.
    """
    slope = (many.median - few.median) / (many.images - few.images)
    fixed = few.median - few.images * slope
    if slope <= 0 or fixed < 0:
        return many.median * rows / many.images
    return fixed + slope * rows


def tried(
    config: Config,
    dataset: Dataset,
    device: torch.device,
    work: Callable[[Training], T],
    build: Build = build_training,
) -> T | None:
    """What `work` finds out about a run at its start; None where the memory is too small. Nothing stays."""
    result = None
    with suppress(torch.OutOfMemoryError):
        result = _done(config, dataset, device, work, build)
    free_memory_(device)
    return result


def _done(
    config: Config, dataset: Dataset, device: torch.device, work: Callable[[Training], T], build: Build
) -> T:
    training = build(config, dataset, device)
    try:
        return work(training)
    finally:
        training.feed.close()


def time_steps(
    training: Training,
    *,
    steps: int,
    seconds: float,
    fed: bool = True,
    recorded: bool = True,
    advance: Advance = _silent,
) -> Steps:
    """Each step by itself: at least one, and as many as the time allows.

    The first ones are not counted, because they make buffers and choose kernels; on a device so slow that one
    takes all the time, the last of them is. Not `fed`: the same batch again and again, so the device alone.
    Not `recorded`: as it runs where several ranks wait for each other.
    """
    step = training.step if recorded else build_step(training.state, training.plan, "eager")
    warm_up = _WARM_UP[training.device.type]
    forget_peak_(training.device)
    start = training.state.step
    first = training.feed(start)
    if not fed:
        training.feed.close()
    times: list[float] = []
    waits: list[float] = []
    began, done = time.perf_counter(), 0
    while done <= warm_up or (done - warm_up < steps and time.perf_counter() - began < seconds):
        clock = time.perf_counter()
        batch = training.feed(start + done) if fed and done else first
        fetched = time.perf_counter()
        step(batch)
        wait_for(training.device)
        times.append(time.perf_counter() - clock)
        waits.append(fetched - clock)
        done += 1
        if done == 1:
            # the first one also tries kernels that take much memory, and does without them where it is short
            forget_peak_(training.device)
        if done == warm_up and times[-1] > seconds:
            break
        if done == warm_up:
            began = time.perf_counter()
        advance(min(max((done - warm_up) / steps, (time.perf_counter() - began) / max(seconds, 1e-9)), 1.0))
    counted = max(done - warm_up, 1)
    times, waits = times[-counted:], waits[-counted:]
    return Steps(len(first.labels_B), tuple(times), sum(waits) / sum(times), peak_memory(training.device))


def loader_alone(training: Training, *, seconds: float) -> float | None:
    """Images per second that the workers make while nothing else runs; None where there are no files."""
    feed = training.feed
    if not isinstance(feed, StreamingFeed):
        return None
    batch, number = feed.batch_size, 0
    # pass over what was made ahead
    for _ in range(_READY * feed.workers // batch + 2):
        feed(number)
        number += 1
    began, done = time.perf_counter(), 0
    while done < 2 or time.perf_counter() - began < seconds:
        feed(number + done)
        done += 1
    return done * batch / (time.perf_counter() - began)


def time_loss(training: Training, config: Config, rows: int, *, rounds: int = 3) -> float:
    """Seconds of what every rank does for the whole batch: queue, positives, loss and its gradient.

    A step that was timed with fewer rows lacks the difference.
    """
    plan, queue, device = training.plan, training.state.queue, training.device
    objective, dim = build_objective(config.method), required(config.net.head_outputs)
    rng = torch.Generator(device).manual_seed(config.seed)
    drawn = partial(torch.randn, generator=rng, device=device)
    online = drawn(len(plan.views), rows, dim).requires_grad_()
    target_VBD = unit(drawn(plan.num_large, rows, dim))
    small_SBD = unit(drawn(len(plan.views) - plan.num_large, rows, dim)) if plan.small_target else None
    labels_B = torch.zeros(rows, dtype=torch.long, device=device)
    labels_B[1::10] = UNLABELLED
    times: list[float] = []
    while len(times) < rounds and sum(times) < _LONG:
        wait_for(device)
        clock, positives = time.perf_counter(), None
        online_ABD = unit(online)
        if queue is not None:
            queue.push_(target_VBD, labels_B, online_ABD[: plan.num_large].detach())
            count = plan.num_positives
            positives = sample_positives(labels_B, queue, len(online), count, rng, mirrored=plan.mirrored)
        few = plan.num_negatives
        negatives_BN = None if few is None else draw_negatives(rows, few, rng)
        objective(online_ABD, target_VBD, positives, negatives_BN, small_SBD).total.backward()
        wait_for(device)
        times.append(time.perf_counter() - clock)
    return min(times)
