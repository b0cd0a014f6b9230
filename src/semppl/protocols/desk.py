"""What every stage after pre-training works with: data, statistics, sizes, and a place to speak.

Shapes: N images asked about, L labelled images, F features, s side of a view.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final, final

import torch
from rich.console import Console
from torch import Tensor, nn

from semppl.config import Config, required
from semppl.core.labels import UNLABELLED
from semppl.core.recording import CudaRecorder
from semppl.core.rng import stream
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles, Images, Prepare, gather
from semppl.data.streaming import StreamingFeed
from semppl.evaluate.descent import Crops, Examples, Means, shuffled
from semppl.evaluate.features import extract_features, whole_batches
from semppl.evaluate.finetune import predict_logits
from semppl.evaluate.linear import LinearFit, fit_linear
from semppl.protocols.feeding import examples_of
from semppl.protocols.sharing import shared_out
from semppl.protocols.store import FeatureStore
from semppl.train.build import build_views, choose_speed, normalisation, uses_bf16
from semppl.train.device import choose_workers, memory_for_pixels, memory_layout
from semppl.train.progress import StageProgress
from semppl.train.ranks import ALONE, Ranks
from semppl.views.colour import normalise
from semppl.views.geometry import cut_image, cut_views
from semppl.views.preprocessing import Preprocessing
from semppl.views.recipe import View
from semppl.views.whole import fitted_crop

_AT_A_TIME: Final = 256
# of a crop: 8 % to all of the image, as in the paper's evaluations
_LEAST_AREA: Final = 0.08
# files that are named when they cannot be read
_NAMED: Final = 10


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
    given: Preprocessing | None = None
    """How the weights want their images; without it, by the statistics of the data."""
    ranks: Ranks = ALONE
    """Who else is at it: images are shared out, and all have all the answers."""
    unreadable: set[str] = field(default_factory=set)
    """What was wrong with files that were listed and could not be read: grey images stand for them."""
    _squares: dict[bytes, Tensor] = field(default_factory=dict, repr=False)
    """Those read last, by their positions: a sweep trains on the same again and again."""

    @property
    def size(self) -> int:
        """Side of a large view, and of what is evaluated."""
        return required(self.config.views.large_size)

    @property
    def workers(self) -> int:
        """Processes that read files."""
        return choose_workers(self.config, self.device)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """Of images that are evaluated."""
        if self.given is not None:
            return self.given
        return Preprocessing.of(self.size, *normalisation(self.config, self.dataset))

    @cached_property
    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels, on the device."""
        mean, std = self.preprocessing.mean, self.preprocessing.std
        return torch.tensor(mean, device=self.device), torch.tensor(std, device=self.device)

    @cached_property
    def given_M(self) -> Tensor:
        """All labels that the user gave: those of training and those held out."""
        labels_M, held_M = self.dataset.labels_M, self.dataset.held_out_M
        return labels_M if held_M is None else labels_M.where(labels_M != UNLABELLED, held_M)

    @cached_property
    def given_L(self) -> Tensor:
        """Positions of the images with such a label."""
        return (self.given_M != UNLABELLED).nonzero().squeeze(1)

    @cached_property
    def view(self) -> View:
        """The geometry of a view for supervised training: the paper's crops of 8 to 100 % of an image; those
        of pre-training where images are small, or where the run has its own least area.
        """
        views = self.config.views
        view = build_views(views)[0]
        if views.recipe != "paper" or views.min_area is not None:
            return view
        return replace(view, min_area=_LEAST_AREA, max_area=1.0)

    def precision(self) -> AbstractContextManager[object]:
        """Around forward passes: bf16 where the run has it."""
        low = uses_bf16(self.config, self.device)
        return torch.autocast(self.device.type, torch.bfloat16, enabled=low)

    @property
    def means(self) -> Means:
        """What this device brings to a training: steps are recorded unless the run asked for plain ones."""
        plain = choose_speed(self.config, 0, self.device) == "eager"
        return Means(self.precision, None if plain else CudaRecorder(self.device))

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
        keep: bool = True,
    ) -> Tensor:
        """Of whole images [N, F]; `prepared` names what `prepare` does to them, for the store.

        Features of files that could not be read, and so are grey, are not kept for another time, nor are
        those that are not to be kept.
        """
        (mean_3, std_3), problems = self.statistics, set[str]()

        def make(out_NF: Tensor | None) -> Tensor:
            def extract(mine: Images, advance: Callable[[int], None]) -> Tensor:
                return extract_features(
                    encoder,
                    mine,
                    size=self.size,
                    mean_3=mean_3,
                    std_3=std_3,
                    batch_size=_AT_A_TIME,
                    workers=self.workers,
                    prepare=prepare or self.preprocessing.prepare,
                    precision=self.precision,
                    out_NF=out_NF if mine is images else None,
                    problems=problems,
                    advance=advance,
                )

            with StageProgress(self.console, title, len(images)) as progress:
                made_NF = shared_out(self.ranks, images, extract, problems, progress.advance)
            return made_NF if out_NF is None or made_NF is out_NF else out_NF.copy_(made_NF)

        def worth_keeping(out_NF: Tensor) -> bool:
            make(out_NF)
            return not problems

        low = uses_bf16(self.config, self.device)
        seen = "" if self.preprocessing.crop == "middle" else self.preprocessing.crop
        how = f"{self.size} px, {mean_3.tolist()}, {std_3.tolist()}, bf16 {low}, {prepared or seen}"
        features_NF = (
            self.store.get(encoder, images, how, worth_keeping) if self.store and keep else make(None)
        )
        self.regret(problems)
        return features_NF

    def regret(self, problems: set[str]) -> None:
        """Name files that could not be read, each once."""
        news = sorted(problems - self.unreadable)
        for problem in news[:_NAMED]:
            self.say(f"{problem}: a grey image stands for it")
        if len(news) > _NAMED:
            self.say(f"… and for {len(news) - _NAMED:,} more files")
        self.unreadable.update(problems)

    def linear(
        self, features_LF: Tensor, labels_L: Tensor, seed: int | None = None, strength: float | None = None
    ) -> LinearFit:
        """A linear classifier on them, fitted where the run runs; by default with its seed, and with the
        penalty that folds choose.
        """
        classes, seed = len(self.dataset.classes), self.config.seed if seed is None else seed
        return fit_linear(
            features_LF, labels_L, classes=classes, seed=seed, strength=strength, device=self.device
        )

    def logits(self, model: nn.Module, images: Images, title: str = "answers") -> Tensor:
        """Of a network with a classifier of its own, for whole images [N, Y]."""
        (mean_3, std_3), problems = self.statistics, set[str]()

        def answer(mine: Images, advance: Callable[[int], None]) -> Tensor:
            views = whole_batches(
                mine,
                size=self.size,
                mean_3=mean_3,
                std_3=std_3,
                batch_size=_AT_A_TIME,
                workers=self.workers,
                problems=problems,
                prepare=self.preprocessing.prepare,
            )
            return predict_logits(model, _counted(views, advance), self.precision)

        with StageProgress(self.console, title, len(images)) as progress:
            logits_NY = shared_out(self.ranks, images, answer, problems, progress.advance)
        self.regret(problems)
        return logits_NY

    def normalised(self, crops_B3ss: Tensor) -> Tensor:
        """uint8 crops → float views, laid out in memory as the networks are."""
        views_B3ss = normalise(crops_B3ss.float() / 255, *self.statistics)
        return views_B3ss.contiguous(memory_format=memory_layout(self.device))

    def pixels(self, index_L: Tensor) -> Tensor:
        """Images to train on, in memory: files as squares somewhat larger than a view."""
        if isinstance(self.dataset.images, Tensor):
            return self.dataset.images[index_L]
        key, problems = index_L.numpy().tobytes(), set[str]()
        if key not in self._squares:
            files, square = self.dataset.images[index_L], partial(fitted_crop, self._side)
            self._squares.clear()
            self._squares[key] = gather(files, square, workers=self.workers, problems=problems)
            self.regret(problems)
        return self._squares[key]

    @property
    def _side(self) -> int:
        return round(self.size * 8 / 7)

    def crops(self, index_L: Tensor) -> Crops:
        """Random crops and flips of those images, their colours as they are, normalised."""
        pixels_L3HW, view = self.pixels(index_L).to(self.device), self.view

        def make(index_B: Tensor, rng: torch.Generator) -> Tensor:
            (crops,) = cut_views(pixels_L3HW[index_B.to(self.device)], [view], 1, rng)
            return self.normalised(crops)

        return make

    def streams(self, num_labels: int, *, exact: bool) -> bool:
        """Whether examples are cut from the files themselves: if it must be exact, or their middle squares do
        not fit into the memory for pixels.
        """
        too_many = 3 * self._side**2 * num_labels > memory_for_pixels(self.device)
        return isinstance(self.dataset.images, ImageFiles) and (exact or too_many)

    def crops_in_words(self, num_labels: int, *, exact: bool) -> str:
        """For beside a number."""
        squares = isinstance(self.dataset.images, ImageFiles) and not self.streams(num_labels, exact=exact)
        of = " of middle squares" if squares else ""
        flips = " and flips" if self.view.flip else ""
        return f"crops of {self.view.min_area:.0%} to {self.view.max_area:.0%}{of}{flips}"

    def examples(
        self,
        index_L: Tensor,
        labels_L: Tensor,
        *,
        batch_size: int,
        seed: int,
        name: str,
        exact: bool = False,
    ) -> tuple[Examples, Callable[[], None]]:
        """Labelled crops step by step, and what to call when no more are wanted; see `streams`."""
        images, classes = self.dataset.images, len(self.dataset.classes)
        if not isinstance(images, ImageFiles) or not self.streams(len(index_L), exact=exact):
            crops = self.crops(index_L)
            return (
                shuffled(crops, labels_L, classes=classes, batch_size=batch_size, seed=seed, name=name),
                _nothing,
            )
        feed = StreamingFeed(
            images[index_L],
            labels_L,
            partial(cut_image, [self.view]),
            batch_size=batch_size,
            seed=stream(seed, name),
            device=self.device,
            workers=self.workers,
        )
        return examples_of(feed, self.normalised, self.regret)


def _counted(views: Iterable[Tensor], advance: Callable[[int], None]) -> Iterator[Tensor]:
    done = 0
    for part in views:
        yield part
        done += len(part)
        advance(done)


def _nothing() -> None:
    """There is nothing to close."""
