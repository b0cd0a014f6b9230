"""What is tried: the user's images, or random ones in the number and size of ImageNet's. M images."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import torch
from rich.console import Console

from semppl.config import Config
from semppl.data.dataset import Dataset
from semppl.data.noise import random_dataset
from semppl.nets.pretrained import fitting_size, own_size
from semppl.resolve import resolved
from semppl.train.build import normalisation
from semppl.train.prepare import announce_data, load_for, resolved_for

IMAGENET: Final = 1_281_167
IMAGENET_CLASSES: Final = 1000
_SIDE: Final = 224
# what is held of it: enough for a batch to be more than the same few again
_HELD: Final = 256
# so many epochs that no schedule ends while it is timed
_LONG: Final = 1e6


@dataclass(frozen=True)
class Subject:
    """A configuration with every choice made, and its data."""

    config: Config
    dataset: Dataset
    num_images: int
    """Of an epoch; random data holds fewer."""
    random: bool

    def to_try(self, batch_size: int, parts: int | None = None, *, compiled: bool = True) -> Config:
        """The same step with another number of images; everything else stays as the real batch decided.

        Compiling takes minutes, so only who asks for it gets it, and not where speed does not matter.
        """
        method, optim, speed = self.config.method, self.config.optim, self.config.speed
        negatives = None if method.negatives is None else min(method.negatives, batch_size - 1)
        own = self.config.micro_batch
        parts = parts or (None if own is None else min(own, batch_size))
        return replace(
            self.config,
            batch_size=batch_size,
            micro_batch=parts,
            speed="graph" if speed == "auto" or parts is not None or not compiled else speed,
            epochs=_LONG,
            method=replace(method, negatives=negatives),
            optim=replace(optim, base_lr=1e-4),
        )


def find_subject(config: Config, device: torch.device, console: Console) -> Subject:
    """The data that the configuration names, or random images where it names none."""
    if config.source:
        dataset = load_for(config, device, console)
        announce_data(dataset, console)
        config = resolved_for(config, dataset)
        num_images = len(dataset.labels_M)
    else:
        num_images = IMAGENET
        config = _resolved_for_random(config)
        dataset = random_dataset(_HELD, _side(config), IMAGENET_CLASSES, config.seed)
    # measured once and not again with each trial
    mean_3, std_3 = normalisation(config, dataset)
    known = replace(config.net, mean=tuple(mean_3.tolist()), std=tuple(std_3.tolist()))
    return Subject(replace(config, net=known), dataset, num_images, not config.source)


def _resolved_for_random(config: Config) -> Config:
    encoder = config.net.encoder or ""
    own = own_size(encoder) if config.net.pretrained else None
    return resolved(
        config,
        image_size=own or config.views.large_size or _SIDE,
        num_images=IMAGENET,
        num_classes=IMAGENET_CLASSES,
        fitting=partial(fitting_size, encoder),
    )


def _side(config: Config) -> int:
    """Photographs are larger than a view; thumbnails are not."""
    view = config.views.large_size or _SIDE
    return view if view <= 64 else round(view * 8 / 7)
