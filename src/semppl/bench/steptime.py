"""One setting: the whole step, its phases, the same without semantic positives, and the floor.

Everything is timed in one run and in turns, so that a warm or a busy machine changes all alike.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import torch

from semppl.bench.floor import floor_step, recorded
from semppl.bench.settings import BenchSettings
from semppl.bench.stopwatch import Stopwatch, milliseconds, peak_memory
from semppl.bench.workload import Workload, build_workload, resident, without_positives
from semppl.core.batch import Batch
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data.files import image_files
from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.data.streaming import StreamingFeed
from semppl.train.build import build_step, build_views
from semppl.train.step import augmented
from semppl.views.geometry import cut_image

Feed = Callable[[int], Batch]


@dataclass(frozen=True)
class Timing:
    """Of one kind of step."""

    ms: float
    peak_mb: float


def time_step(
    settings: BenchSettings, say: Callable[[str], None], keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """All figures of one setting; `keep` hears of them before the files are tried."""
    semppl = build_workload(settings)
    relic = without_positives(semppl, settings)
    speed = semppl.training.speed
    timings: dict[str, list[Timing]] = {"floor": [], "relicv2": [], "semppl": []}
    seconds = []
    for turn in range(2):
        clock = time.perf_counter()
        compiling = ", compiling first: minutes" if speed == "compile" and not turn else ""
        say(f"the encoders alone, ReLICv2 and SemPPL, turn {turn + 1} of 2{compiling}")
        timings["floor"].append(_time_floor(semppl, settings))
        timings["relicv2"].append(_time_whole(relic, relic.training.feed, settings))
        timings["semppl"].append(_time_whole(semppl, semppl.training.feed, settings))
        seconds.append(time.perf_counter() - clock)
    ms = {name: median(timing.ms for timing in each) for name, each in timings.items()}
    result: dict[str, Any] = {
        "speed": speed,
        "ms": ms,
        "peak_mb": {name: each[-1].peak_mb for name, each in timings.items()},
        "images_per_second": 1e3 * settings.batch_size / ms["semppl"],
        "step_over_floor": ms["semppl"] / ms["floor"],
        "semppl_over_relicv2": ms["semppl"] / ms["relicv2"] - 1,
        # both turns do the same; the first one also compiles
        "start_up_s": max(seconds[0] - seconds[1], 0.0),
        "phases_ms": _phases(semppl, settings),
    }
    keep(result)
    if settings.images is not None:
        say(f"with images decoded from {settings.images}")
        files = _time_files(semppl, settings, settings.images)
        result["from_files"] = files | {"share_of_resident_rate": ms["semppl"] / files["ms"]}
    return result


def _time_whole(workload: Workload, feed: Feed, settings: BenchSettings) -> Timing:
    training, clock = workload.training, count()
    step = build_step(training.state, training.plan, training.speed)

    def call() -> None:
        step(feed(next(clock)))

    with peak_memory(workload.device) as peak:
        # more than the steps that run before one is recorded
        ms = milliseconds(call, workload.device, steps=settings.steps, rounds=settings.rounds, warm_up=6)
    return Timing(ms, peak())


def _time_floor(workload: Workload, settings: BenchSettings) -> Timing:
    training = workload.training
    plan, device = training.plan, training.device
    batch, rng = training.feed(0), generator(plan.seed, "photometric", 0, device)
    views_A = augmented(batch, plan, rng)
    step = floor_step(training.state, plan, views_A)
    with peak_memory(device) as peak:
        step = step if training.speed == "eager" else recorded(step, device)
        ms = milliseconds(step, device, steps=settings.steps, rounds=settings.rounds)
    return Timing(ms, peak())


def _phases(workload: Workload, settings: BenchSettings) -> dict[str, float]:
    """Medians over single steps; the marks themselves cost a little, so their sum is not the time above.

    Each measured step follows another one, so that the host has sent its commands before their turn comes.
    The feed is timed alone, after the step: in training it runs beside the step before.
    """
    watch, training, feed = Stopwatch(workload.device), workload.training, resident(workload)
    watch.mark("begin")
    step = build_step(training.state, training.plan, training.speed, watch.mark)
    for number in range(4 + settings.steps):
        batch = feed.make(number)
        step(batch)
        watch.mark("begin")
        step(batch)
        feed.make(number + 1)
        watch.mark("feed")
        if number >= 4:
            watch.read_()
    return watch.medians()


def _time_files(workload: Workload, settings: BenchSettings, folder: Path) -> dict[str, Any]:
    files = image_files(folder.absolute())
    repeated = Paths(path.lstrip("/") for path in files * -(-4 * settings.batch_size // len(files)))
    views = build_views(workload.config.views)
    labels_M = torch.full((len(repeated),), UNLABELLED)
    labels_M[::10] = torch.arange(len(labels_M[::10])) % settings.classes
    feed = StreamingFeed(
        ImageFiles(Path("/"), repeated),
        labels_M,
        partial(cut_image, views),
        batch_size=settings.batch_size,
        seed=settings.seed,
        device=workload.device,
        workers=settings.workers,
    )
    try:
        timing = _time_whole(workload, feed, settings)
        return {
            "ms": timing.ms,
            "images_per_second": 1e3 * settings.batch_size / timing.ms,
            "files": len(files),
            "workers": feed.workers,
            "feed_alone_images_per_second": _feed_alone(feed, settings),
        }
    finally:
        feed.close()


def _feed_alone(feed: StreamingFeed, settings: BenchSettings) -> float:
    clock, device = count(10_000), feed.device
    ms = milliseconds(lambda: feed(next(clock)), device, steps=10, rounds=1, warm_up=5)
    return 1e3 * settings.batch_size / ms
