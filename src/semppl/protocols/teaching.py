"""Training with consistency: which images, which views, and a student with its teacher.

An image is seen as it is evaluated (whole, and sharp where it has the size of a view). An easy view is that,
flipped and shifted; a hard view is cut from one that is shifted (`protocols/hard.py`).

Shapes: L labelled images, M images of the data set, N images without a label, B images of a batch, U images
without a label of a step, s side of a view.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import cast, final

import torch
from rich.console import Console
from torch import Tensor, nn

from semppl.core.rng import stream, uniforms
from semppl.core.share import Rows
from semppl.data.dataset import Dataset
from semppl.data.images import Images, Prepare, gather
from semppl.data.resident import ResidentFeed
from semppl.data.streaming import StreamingFeed
from semppl.evaluate.bookmark import Bookmark
from semppl.evaluate.consistency import WEIGHT_DECAY, Answers, Plan, Tally, class_prior
from semppl.evaluate.descent import decaying_adamw, decaying_sgd
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.teaching import Classified, Pair, Pairs, Teaching, create_student, forward, learn_
from semppl.protocols.desk import Desk
from semppl.protocols.feeding import examples_of
from semppl.protocols.hard import Harden, hard_view, hardening
from semppl.train.build import choose_speed, compiled
from semppl.train.device import memory_for_pixels, memory_layout
from semppl.train.feed import Feed
from semppl.train.progress import StageProgress
from semppl.views.easy import shift
from semppl.views.geometry import cut_views
from semppl.views.recipe import View


@final
@dataclass(frozen=True)
class Cut:
    """Images → uint8 views: easy ones, and hard ones before their colours if there is a `hard`; picklable."""

    prepare: Prepare
    flip: float
    hard: View | None = None

    def __call__(
        self, images_BCHW: Tensor, _masks: Tensor | None, rng: torch.Generator, rows: Rows
    ) -> tuple[Tensor, ...]:
        """Of a batch; masks stay unused, as in all that follows pre-training."""
        square_B3ss = self.prepare(images_BCHW)
        easy_B3ss = shift(square_B3ss, uniforms(3, rows, rng), self.flip)
        if self.hard is None:
            return (easy_B3ss,)
        other_B3ss = shift(square_B3ss, uniforms(3, rows, rng), 0.0)
        return easy_B3ss, *cut_views(other_B3ss, [self.hard], 1, rng, rows=rows)

    def one(self, image_CHW: Tensor, rng: torch.Generator) -> list[Tensor]:
        """Of a single image of any size."""
        return [view_B3ss[0] for view_B3ss in self(image_CHW[None], None, rng, Rows(0, 1, 1))]


@final
@dataclass(frozen=True)
class Material:
    """Some images and how they become squares: in memory, or files that are read again and again."""

    images: Images
    prepare: Prepare
    labels_N: Tensor

    def feed(self, desk: Desk, cut: Cut, count: int, seed: int, name: str) -> Feed:
        """Views of `count` images for each step; to be closed when no more are wanted."""
        own = stream(seed, name)
        if isinstance(self.images, Tensor):
            few = Dataset(desk.dataset.name, self.images, self.labels_N, (), desk.dataset.classes)
            return ResidentFeed(few, cut, batch_size=count, seed=own, device=desk.device)
        return StreamingFeed(
            self.images,
            self.labels_N,
            cut.one,
            batch_size=count,
            seed=own,
            device=desk.device,
            workers=desk.workers,
        )


def collect(desk: Desk, index_N: Tensor, labels_M: Tensor) -> Material:
    """Files become squares in memory, if these fit into the memory for pixels."""
    images, square = desk.dataset.images[index_N], partial(_square, desk.preprocessing.prepare)
    too_many = 3 * desk.size**2 * len(index_N) > memory_for_pixels(desk.device)
    if isinstance(images, Tensor) or too_many:
        return Material(images, square, labels_M[index_N])
    problems = set[str]()
    with StageProgress(desk.console, "reading images", len(index_N)) as progress:
        squares_N3ss = gather(
            images,
            square,
            workers=desk.workers,
            problems=problems,
            advance=lambda done, _: progress.advance(done),
        )
    desk.regret(problems)
    return Material(squares_N3ss, _same, labels_M[index_N])


def _square(prepare: Prepare, images_3HW: Tensor) -> Tensor:
    return prepare(images_3HW).round().to(torch.uint8)


def _same(images_3ss: Tensor) -> Tensor:
    return images_3ss


@final
@dataclass(frozen=True)
class Lot:
    """All images of a training."""

    given: Material
    others: Material
    """Without a label."""
    index_N: Tensor
    """Their positions in the data set."""


def collect_lot(desk: Desk, index_L: Tensor, index_N: Tensor, labels_M: Tensor) -> Lot:
    """Those with a label and those without."""
    return Lot(collect(desk, index_L, labels_M), collect(desk, index_N, labels_M), index_N)


def teach(
    desk: Desk,
    encoder: nn.Module,
    fit: LinearFit,
    lot: Lot,
    plan: Plan,
    *,
    sure: float,
    seed: int,
    title: str | None,
    left: AbstractContextManager[Bookmark | None] | None = None,
    tally: Tally | None = None,
    advance: Callable[[int], None] | None = None,
) -> Classified:
    """The teacher at the end; without a title nobody sees how far it is.

    The student starts as a copy of the encoder with that classifier. `sure` is the least probability of an
    answer that it learns as it is, `left` where it goes on, and `tally` counts answers by epoch.
    """
    device, given, view = desk.device, lot.given, hard_view(desk)
    easy, both = Cut(given.prepare, view.flip), Cut(lot.others.prepare, view.flip, view)
    labelled = given.feed(desk, easy, plan.labelled, seed, "consistency/labelled")
    unlabelled = lot.others.feed(desk, both, plan.unlabelled, seed, "consistency/unlabelled")
    harden = hardening(desk, view, seed, "consistency/colours")
    examples, close = examples_of(labelled, desk.normalised, desk.regret)
    student = create_student(encoder, fit).to(device).to(memory_format=memory_layout(device))
    teaching = Teaching(
        prior_Y=class_prior(given.labels_N, len(fit.bias_Y)).to(device),
        least=sure,
        decay=plan.decay,
        doubtful=plan.doubtful,
        forward=compiled(forward, choose_speed(desk.config, plan.steps, device)),
    )

    def watch(step: int, index_U: Tensor, answers: Answers) -> None:
        if tally is not None:
            tally.count_(step * plan.unlabelled // len(lot.index_N), index_U, answers)

    descend = decaying_adamw if plan.optimizer == "adamw" else decaying_sgd
    console = Console(quiet=True) if title is None else desk.console
    try:
        with left or nullcontext() as bookmark, StageProgress(console, title or "", plan.steps) as progress:
            teacher = learn_(
                student,
                examples,
                _pairs(desk, unlabelled, lot.index_N.to(device), harden),
                descend(student, lr=plan.rate, weight_decay=WEIGHT_DECAY),
                plan.learning_rate,
                plan.steps,
                replace(teaching, means=desk.means._replace(bookmark=bookmark)),
                watch=watch,
                advance=advance or progress.advance,
            )
    finally:
        close()
        unlabelled.close()
        desk.regret(unlabelled.unreadable)
    return cast(Classified, teacher)


def _pairs(desk: Desk, feed: Feed, place_N: Tensor, harden: Harden) -> Pairs:
    """Both views of each step."""

    def pairs(step: int) -> Pair:
        batch = feed(step)
        easy_U3ss, hard_U3ss = batch.crops
        return Pair(desk.normalised(easy_U3ss), harden(step, hard_U3ss), place_N[batch.index_B])

    return pairs
