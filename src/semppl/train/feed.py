"""Which feed a run has: pixels in the device's memory, or files that workers read."""

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from semppl.config import Config
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.core.share import WHOLE, Share
from semppl.data.dataset import Dataset
from semppl.data.order import Mixture
from semppl.data.resident import Cut, ResidentFeed
from semppl.data.streaming import Masked, StreamingFeed
from semppl.train.device import choose_workers
from semppl.views.geometry import cut_image, cut_masked
from semppl.views.masking import Saliency
from semppl.views.recipe import View

Feed: TypeAlias = ResidentFeed | StreamingFeed


def build_feed(
    config: Config,
    dataset: Dataset,
    cut: Cut,
    views: list[View],
    device: torch.device,
    share: Share = WHOLE,
) -> Feed:
    """Resident for pixels in memory, streaming for files; of a batch it brings this process's share.

    `cut` is for pixels in memory; of files `views` are cut, and the large ones come first in both.
    """
    labelled_M = dataset.labels_M != UNLABELLED
    if config.data.labelled_fraction is not None and (labelled_M.all() or not labelled_M.any()):
        raise UserError("a labelled fraction needs labelled and unlabelled images, and one kind is missing")
    if config.data.balance_labels and not labelled_M.any():
        raise UserError("--data.balance-labels: there are no labels to balance, so leave it out")
    saliency = saliency_of(config)
    if isinstance(dataset.images, Tensor):
        return ResidentFeed(
            dataset if saliency.probability else replace(dataset, masks_MHW=None),
            cut,
            batch_size=config.images_per_step,
            seed=config.seed,
            device=device,
            mixture=mixture_of(config),
            share=share,
        )
    masked = None
    if dataset.mask_files is not None and saliency.probability:
        masked = Masked(dataset.mask_files, partial(cut_masked, views, config.views.large, saliency))
    return StreamingFeed(
        dataset.images,
        dataset.labels_M,
        partial(cut_image, views),
        batch_size=config.images_per_step,
        seed=config.seed,
        device=device,
        workers=choose_workers(config, device),
        mixture=mixture_of(config),
        oracle_M=dataset.oracle_M,
        share=share,
        # sooner than other ranks lose theirs: the file is the better answer
        patience=0.8 * config.timeout,
        masked=masked,
    )


def mixture_of(config: Config) -> Mixture:
    """How many of a batch's images are labelled, and which."""
    return Mixture(config.data.labelled_fraction, bool(config.data.balance_labels))


def saliency_of(config: Config) -> Saliency:
    """When masks are applied."""
    return Saliency(probability=config.saliency.probability, min_foreground=config.saliency.min_foreground)
