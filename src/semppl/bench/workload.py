"""The step to measure, built as training builds it. Shapes: M images, H×W pixels."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from semppl.bench.settings import BenchSettings
from semppl.config import Config, MethodConfig, NetConfig, OptimConfig, ViewsConfig
from semppl.data.noise import random_dataset
from semppl.data.resident import ResidentFeed
from semppl.resolve import resolved
from semppl.train.build import Training, build_step, build_training
from semppl.train.device import choose_device

# enough steps that no schedule ends while it is timed
_EPOCHS = 10_000.0


@dataclass(frozen=True)
class Workload:
    """A run that is never finished."""

    config: Config
    training: Training

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.training.device


def build_workload(settings: BenchSettings, **method: Any) -> Workload:
    """Random images on the device, a tenth of them labelled."""
    device = choose_device(settings.device)
    num_images = max(4 * settings.batch_size, 1024)
    # larger than a view, as photographs are, unless they are thumbnails
    side = settings.image_size if settings.image_size <= 64 else round(settings.image_size * 8 / 7)
    dataset = random_dataset(num_images, side, settings.classes, settings.seed)
    config = resolved(
        Config(
            source="random images",
            epochs=_EPOCHS,
            batch_size=settings.batch_size,
            seed=settings.seed,
            device=settings.device,
            precision=settings.precision,
            speed=settings.speed,
            micro_batch=settings.micro_batch,
            views=ViewsConfig(large=settings.large, small=settings.small, large_size=settings.image_size),
            net=NetConfig(encoder=settings.encoder, width=settings.width),
            method=MethodConfig(queue_capacity=settings.queue, **method),
            optim=OptimConfig(name=settings.optimiser, base_lr=1e-4),
        ),
        image_size=side,
        num_images=num_images,
        num_classes=settings.classes,
    )
    return Workload(config, build_training(config, dataset, device))


def resident(workload: Workload) -> ResidentFeed:
    """The feed of random images, which are always in memory."""
    if not isinstance(workload.training.feed, ResidentFeed):
        raise TypeError("random images are in memory")
    return workload.training.feed


def without_positives(workload: Workload, settings: BenchSettings) -> Workload:
    """The same networks under ReLICv2 alone: no queue, no votes, no semantic positives."""
    plain = build_workload(settings, positives=0)
    state, plan = workload.training.state, workload.training.plan
    shared, alone = (
        replace(plain.training.plan, nets=plan.nets, augment=plan.augment),
        replace(state, queue=None),
    )
    step = build_step(alone, shared, workload.training.speed)
    return Workload(plain.config, replace(workload.training, state=alone, plan=shared, step=step))
