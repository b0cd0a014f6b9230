"""What every stage after pre-training works with: data, statistics, sizes, and a place to speak.

Shapes: N images asked about, L labelled images, F features, s side of a view.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import final

import torch
from rich.console import Console
from torch import Tensor, nn

from semppl.config import Config, required
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.images import Images, gather
from semppl.evaluate.features import extract_features
from semppl.train.build import build_views, normalisation
from semppl.train.device import choose_workers
from semppl.train.progress import StageProgress
from semppl.views.colour import normalise
from semppl.views.geometry import cut_views
from semppl.views.recipe import View
from semppl.views.whole import whole_crop


@final
@dataclass(frozen=True)
class Desk:
    """`config` is resolved."""

    config: Config
    dataset: Dataset
    device: torch.device
    console: Console

    @property
    def size(self) -> int:
        """Side of a large view, and of what is evaluated."""
        return required(self.config.views.large_size)

    @property
    def workers(self) -> int:
        """Processes that read files."""
        return choose_workers(self.config, self.device)

    @cached_property
    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels, on the device."""
        mean_3, std_3 = normalisation(self.config, self.dataset)
        return mean_3.to(self.device), std_3.to(self.device)

    @cached_property
    def given_M(self) -> Tensor:
        """All labels that the user gave: those of training and those held out."""
        labels_M, held_M = self.dataset.labels_M, self.dataset.held_out_M
        return labels_M if held_M is None else labels_M.where(labels_M != UNLABELLED, held_M)

    @cached_property
    def view(self) -> View:
        """The geometry of a view for supervised training."""
        return build_views(self.config.views)[0]

    def say(self, line: str) -> None:
        """One line for people."""
        self.console.print(line, highlight=False, soft_wrap=True)

    def features(self, encoder: nn.Module, images: Images, title: str = "features") -> Tensor:
        """Of whole images [N, F]."""
        mean_3, std_3 = self.statistics
        with StageProgress(self.console, title, len(images)) as progress:
            return extract_features(
                encoder,
                images,
                size=self.size,
                mean_3=mean_3,
                std_3=std_3,
                batch_size=256,
                workers=self.workers,
                advance=progress.advance,
            )

    def pixels(self, index_L: Tensor) -> Tensor:
        """Images to train on, in memory: files as squares somewhat larger than a view."""
        if isinstance(self.dataset.images, Tensor):
            return self.dataset.images[index_L]
        side = round(self.size * 8 / 7)
        return gather(self.dataset.images[index_L], partial(whole_crop, side), workers=self.workers)

    def crops(self, index_L: Tensor) -> Callable[[Tensor, torch.Generator], Tensor]:
        """Random crops and flips of those images, their colours as they are, normalised."""
        pixels_L3HW, (mean_3, std_3), view = self.pixels(index_L).to(self.device), self.statistics, self.view

        def make(index_B: Tensor, rng: torch.Generator) -> Tensor:
            (crops,) = cut_views(pixels_L3HW[index_B.to(self.device)], [view], 1, rng)
            return normalise(crops.float() / 255, mean_3, std_3)

        return make
