"""Fine-tuning with consistency as a protocol: which images, which views, and what was done in words.

An image is seen as it is evaluated (whole, and sharp where it has the size of a view). An easy view is that,
flipped and shifted; a hard view is cut from it, has the colours of pre-training and a hole.

Shapes: L labelled images, N images without a label, B images of a batch, s side of a view.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from semppl.core.errors import UserError
from semppl.core.rng import generator, stream, uniforms
from semppl.core.share import Rows
from semppl.data.dataset import Dataset
from semppl.data.images import Images, Prepare, gather
from semppl.data.resident import ResidentFeed
from semppl.data.streaming import StreamingFeed
from semppl.evaluate.consistency import WEIGHT_DECAY, Answers, Plan, Tally, class_prior, make_plan
from semppl.evaluate.descent import decaying_sgd
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.teaching import Pair, Teaching, create_student, forward, learn_
from semppl.protocols.desk import Desk
from semppl.protocols.feeding import examples_of
from semppl.protocols.frozen import linear_fit, linear_words
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.self_training import without_label
from semppl.protocols.subject import Subject
from semppl.protocols.unfinished import bookmark_of, digest_of, start_of
from semppl.train.build import build_views, choose_speed, compiled, memory_layout
from semppl.train.device import memory_for_pixels
from semppl.train.feed import Feed
from semppl.train.progress import StageProgress
from semppl.views.easy import cut_out, reach, shift
from semppl.views.geometry import cut_views
from semppl.views.photometric import finish
from semppl.views.recipe import View

# of hard views: crops of at least so much, in every second one; a smaller part often shows another thing, or
# none, and the answer for the whole image would be wrong for it
_LEAST_AREA: Final = 0.35
_CROP: Final = 0.5


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


def hard_view(desk: Desk) -> View:
    """The colours of pre-training's large views, of which every second one is solarised; crops no harder than
    its own.
    """
    view = build_views(desk.config.views)[0]
    return replace(
        view,
        min_area=max(view.min_area, _LEAST_AREA),
        max_area=1.0,
        crop=_CROP,
        solarise=view.solarise / 2,
    )


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


def finetune_consistently(subject: Subject) -> Outcome:
    """All but the penalty of the start was fixed beforehand: nothing is set aside, so all labels train."""
    desk, task, labels, flags = subject.desk, subject.task, subject.task.labels, subject.flags
    index_N = without_label(desk, labels.labels_M)
    if not len(index_N):
        raise UserError(f"{desk.dataset.name}: every image has a label: leave --consistency out")
    fit, plan = linear_fit(subject, labels), make_plan(len(index_N), flags.epochs)
    given = collect(desk, labels.all_L, labels.labels_M)
    others = collect(desk, index_N, labels.labels_M)
    seeds = range(flags.seed, flags.seed + flags.seeds)
    found, curves = [], []
    for seed in seeds:
        teacher, curve = _taught(subject, fit, plan, (given, others), index_N, seed)
        desk.say(_said(len(index_N), curve[-1]))
        found.append(subject.marked(desk.logits(teacher, task.exam.images)))
        curves.append({"seed": seed, "by_epoch": curve})
    return Outcome(
        protocol=f"{_words(subject, plan, len(index_N), fit)}; {task.describe()}; {len(seeds)} seed(s)",
        numbers=over_seeds([numbers_of(metrics) for metrics in found]),
        settings={
            **asdict(plan),
            "unlabelled_images": len(index_N),
            "least_probability": flags.sure,
            "weight_decay": WEIGHT_DECAY,
            "strength_of_the_start": fit.strength,
            "hard_view": asdict(hard_view(desk)),
            "seeds": list(seeds),
        },
        details={"metrics": [metrics.as_json() for metrics in found], "consistency": curves},
    )


def _taught(
    subject: Subject,
    fit: LinearFit,
    plan: Plan,
    material: tuple[Material, Material],
    index_N: Tensor,
    seed: int,
) -> tuple[nn.Module, Sequence[dict[str, Any]]]:
    """The teacher at the end, and what it was sure of by epoch."""
    desk, (given, others), view = subject.desk, material, hard_view(subject.desk)
    device, (mean_3, std_3) = desk.device, desk.statistics
    place_N = index_N.to(device)
    easy, both = Cut(given.prepare, view.flip), Cut(others.prepare, view.flip, view)
    labelled = given.feed(desk, easy, plan.labelled, seed, "consistency/labelled")
    unlabelled = others.feed(desk, both, plan.unlabelled, seed, "consistency/unlabelled")
    examples, close = examples_of(labelled, desk.normalised, desk.regret)
    tally = Tally(plan.epochs, desk.dataset.hidden, device)

    def pairs(step: int) -> Pair:
        batch, rng = unlabelled(step), generator(seed, "consistency/colours", step, device)
        easy_U3ss, hard_U3ss = batch.crops
        hard_U3ss = finish(hard_U3ss, view, mean_3, std_3, rng)
        hard_U3ss = cut_out(hard_U3ss, uniforms(2, len(hard_U3ss), rng))
        return Pair(desk.normalised(easy_U3ss), hard_U3ss, place_N[batch.index_B])

    def watch(step: int, index_U: Tensor, answers: Answers) -> None:
        tally.count_(step * plan.unlabelled // len(index_N), index_U, answers)

    title = f"fine-tuning with consistency, seed {seed}"
    left = bookmark_of(
        subject,
        "finetune",
        f"consistency-seed{seed}",
        title=title,
        steps=plan.steps,
        facts={
            **asdict(plan),
            **start_of(subject.online.encoder),
            "strength": fit.strength,
            "sure": subject.flags.sure,
            "seed": seed,
            "labels": digest_of(subject.task.labels.labels_M, index_N),
        },
        beside={"tally": tally.table_E4},
    )
    student = create_student(subject.online.encoder, fit).to(device).to(memory_format=memory_layout(device))
    teaching = Teaching(
        prior_Y=class_prior(given.labels_N, subject.classes).to(device),
        least=subject.flags.sure,
        decay=plan.decay,
        forward=compiled(forward, choose_speed(desk.config, plan.steps, device)),
    )
    try:
        with left as bookmark, StageProgress(desk.console, title, plan.steps) as progress:
            teacher = learn_(
                student,
                examples,
                pairs,
                decaying_sgd(student, lr=plan.rate, weight_decay=WEIGHT_DECAY),
                plan.learning_rate,
                plan.steps,
                replace(teaching, means=desk.means._replace(bookmark=bookmark)),
                watch=watch,
                advance=progress.advance,
            )
    finally:
        close()
        unlabelled.close()
        desk.regret(unlabelled.unreadable)
    return teacher, tally.as_json()


def _said(count: int, last: Mapping[str, Any]) -> str:
    right = f", {last['right']:.1%} of these answers right" if "right" in last else ""
    return f"sure of {last['coverage']:.1%} of {count:,} images without a label in the last epoch{right}"


def _words(subject: Subject, plan: Plan, count: int, fit: LinearFit) -> str:
    """For beside the numbers."""
    view = hard_view(subject.desk)
    most = reach(view.size)
    moves = ["flipped"] * bool(view.flip) + [f"shifted by up to {most} px"] * bool(most)
    return (
        f"fine-tuned with consistency: {count:,} unlabelled images, P = {subject.flags.sure:g}, "
        f"{plan.epochs} epochs of them, {plan.unlabelled} beside {plan.labelled} labelled ones in each of "
        f"{plan.steps:,} steps; encoder and a linear classifier that starts as {linear_words(fit)}; easy "
        f"views ({', '.join(moves) or 'whole images'}) for labels and the teacher's answers, hard ones with "
        f"the colours of pre-training, {view.crop:.0%} of them crops from {view.min_area:.0%} on, and a hole "
        f"of half their side; answers aligned to the shares of the labels; Nesterov 0.9, rate {plan.rate:g} "
        f"falling by a cosine, weight decay {WEIGHT_DECAY:g}; marked is the teacher, an average with decay "
        f"{plan.decay:.4g}; no other setting was chosen"
    )
