"""What every stage after pre-training works with: data, statistics, sizes, and a place to speak.

Shapes: N images asked about, L labelled images, F features, s side of a view.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, final

import torch
from rich.console import Console
from torch import Tensor, nn

from semppl.config import Config, required
from semppl.core.labels import UNLABELLED
from semppl.core.rng import stream
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles, Images, Prepare, gather
from semppl.data.streaming import StreamingFeed
from semppl.evaluate.descent import Crops, Examples, shuffled
from semppl.evaluate.features import extract_features, whole_batches
from semppl.evaluate.finetune import predict_logits
from semppl.evaluate.linear import LinearFit, fit_linear
from semppl.protocols.store import FeatureStore
from semppl.train.build import build_views, normalisation, uses_bf16
from semppl.train.device import choose_workers, memory_for_pixels
from semppl.train.progress import StageProgress
from semppl.views.colour import normalise
from semppl.views.geometry import cut_image, cut_views
from semppl.views.recipe import View
from semppl.views.whole import whole_crop

_AT_A_TIME: Final = 256


@final
@dataclass(frozen=True)
class Desk:
    """`config` is resolved."""

    config: Config
    dataset: Dataset
    device: torch.device
    console: Console
    store: FeatureStore | None = None
    """Where features are kept for the next time."""

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

    def precision(self) -> AbstractContextManager[object]:
        """Around forward passes: bf16 where the run has it."""
        low = uses_bf16(self.config, self.device)
        return torch.autocast(self.device.type, torch.bfloat16, enabled=low)

    def say(self, line: str) -> None:
        """One line for people."""
        self.console.print(line, highlight=False, soft_wrap=True)

    def features(
        self,
        encoder: nn.Module,
        images: Images,
        title: str = "features",
        *,
        prepare: Prepare | None = None,
        prepared: str = "",
    ) -> Tensor:
        """Of whole images [N, F]; `prepared` names what `prepare` does to them, for the store."""
        mean_3, std_3 = self.statistics

        def make(out_NF: Tensor | None) -> Tensor:
            with StageProgress(self.console, title, len(images)) as progress:
                return extract_features(
                    encoder,
                    images,
                    size=self.size,
                    mean_3=mean_3,
                    std_3=std_3,
                    batch_size=_AT_A_TIME,
                    workers=self.workers,
                    prepare=prepare,
                    precision=self.precision,
                    out_NF=out_NF,
                    advance=progress.advance,
                )

        if self.store is None:
            return make(None)
        low = uses_bf16(self.config, self.device)
        how = f"{self.size} px, {mean_3.tolist()}, {std_3.tolist()}, bf16 {low}, {prepared}"
        return self.store.get(encoder, images, how, make)

    def linear(self, features_LF: Tensor, labels_L: Tensor) -> LinearFit:
        """A linear classifier on them, fitted where the run runs."""
        classes, seed = len(self.dataset.classes), self.config.seed
        return fit_linear(features_LF, labels_L, classes=classes, seed=seed, device=self.device)

    def logits(self, model: nn.Module, images: Images, title: str = "answers") -> Tensor:
        """Of a network with a classifier of its own, for whole images [N, Y]."""
        mean_3, std_3 = self.statistics
        views = whole_batches(
            images,
            size=self.size,
            mean_3=mean_3,
            std_3=std_3,
            batch_size=_AT_A_TIME,
            workers=self.workers,
        )
        with StageProgress(self.console, title, len(images)) as progress:
            return predict_logits(model, _counted(views, progress.advance), self.precision)

    def pixels(self, index_L: Tensor) -> Tensor:
        """Images to train on, in memory: files as squares somewhat larger than a view."""
        if isinstance(self.dataset.images, Tensor):
            return self.dataset.images[index_L]
        return gather(self.dataset.images[index_L], partial(whole_crop, self._side), workers=self.workers)

    @property
    def _side(self) -> int:
        return round(self.size * 8 / 7)

    def crops(self, index_L: Tensor) -> Crops:
        """Random crops and flips of those images, their colours as they are, normalised."""
        pixels_L3HW, (mean_3, std_3), view = self.pixels(index_L).to(self.device), self.statistics, self.view

        def make(index_B: Tensor, rng: torch.Generator) -> Tensor:
            (crops,) = cut_views(pixels_L3HW[index_B.to(self.device)], [view], 1, rng)
            return normalise(crops.float() / 255, mean_3, std_3)

        return make

    def examples(
        self, index_L: Tensor, labels_L: Tensor, *, batch_size: int, seed: int, name: str
    ) -> tuple[Examples, Callable[[], None]]:
        """Labelled crops step by step, and what to call when no more are wanted.

        Files whose squares do not fit into the memory for pixels are read again and again by workers.
        """
        images, classes = self.dataset.images, len(self.dataset.classes)
        fits = 3 * self._side**2 * len(index_L) <= memory_for_pixels(self.device)
        if not isinstance(images, ImageFiles) or fits:
            crops = self.crops(index_L)
            return (
                shuffled(crops, labels_L, classes=classes, batch_size=batch_size, seed=seed, name=name),
                _nothing,
            )
        mean_3, std_3 = self.statistics
        feed = StreamingFeed(
            images[index_L],
            labels_L,
            partial(cut_image, [self.view]),
            batch_size=batch_size,
            seed=stream(seed, name),
            device=self.device,
            workers=self.workers,
        )

        def examples(step: int) -> tuple[Tensor, Tensor]:
            batch = feed(step)
            return normalise(batch.crops[0].float() / 255, mean_3, std_3), batch.labels_B

        return examples, feed.close


def _counted(views: Iterable[Tensor], advance: Callable[[int], None]) -> Iterator[Tensor]:
    done = 0
    for part in views:
        yield part
        done += len(part)
        advance(done)


def _nothing() -> None:
    """There is nothing to close."""
