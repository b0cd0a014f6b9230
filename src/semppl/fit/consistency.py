"""Fine-tuning on all images as a stage: those without a label join by consistency, as long as time allows.

No setting is chosen, so there are two trainings at most: one to be measured, and one more on all labels if
this way is the model's. Where there is time for one alone, the network that was measured is the model's.

Shapes: M images of the data set, L labelled images, N images without a label.
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, final

from torch import Tensor, nn

from semppl.core.counted import counted
from semppl.core.labels import UNLABELLED
from semppl.data.images import ImageFiles
from semppl.evaluate.consistency import Plan, make_plan
from semppl.evaluate.exam import Exam
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.teaching import Classified
from semppl.fit.clock import StepClock
from semppl.fit.tuning import answers
from semppl.fit.verdict import ON_ALL, OURS, Row, examined
from semppl.protocols.desk import Desk
from semppl.protocols.self_training import without_label
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.teaching import Lot, Material, collect, teach

SURE: Final = EvaluateFlags.sure
# of the time that pre-training took: so much in any case
_SHARE: Final = 0.5
_TRAININGS: Final = 2
_FEWEST: Final = 200
# of a training alone (docs/fit-measured.md)
_FEWEST_ALONE: Final = 100
# of any training: with two epochs of a large set it was behind the linear way
_LEAST_EPOCHS: Final = 3
# with 250 labels of CIFAR-10 they were two points better than 150 (docs/results/tuning.md)
_MOST_EPOCHS: Final = 450
# epochs of pre-training below which files are not read for it: reading them once may take as long as one
_FEWEST_EPOCHS: Final = 4


@final
@dataclass(frozen=True)
class Course:
    """How a network is trained on images with and without a label."""

    plan: Plan
    others: Material
    """Read once for both trainings."""
    index_N: Tensor
    """Their positions."""
    kept: Classified | None = None
    """The network that was measured, where there is no time for another one."""

    def once_more(self, desk: Desk, encoder: nn.Module) -> Classified:
        """On all labels, those for validation included; or what was measured."""
        if self.kept is not None:
            return self.kept
        return self.run(desk, encoder, desk.given_M, "fine-tuning on all images and labels")

    def run(self, desk: Desk, encoder: nn.Module, labels_M: Tensor, title: str) -> Classified:
        """A copy of the encoder, with these labels."""
        fit, lot = _start(desk, encoder, labels_M, self.others, self.index_N)
        return teach(desk, encoder, fit, lot, self.plan, sure=SURE, seed=desk.config.seed, title=title)

    def describe(self) -> str:
        """For beside the numbers."""
        plan = self.plan
        doubtful = " (less likely answers by their probabilities)" * plan.doubtful
        return (
            f"{ON_ALL}: with consistency, {len(self.index_N):,} images without a label, "
            f"P = {SURE:g}{doubtful}, {counted(str(plan.epochs), 'epoch')} of them in "
            f"{counted(plan.steps, 'step')} from the linear way on"
        )

    def as_json(self) -> dict[str, Any]:
        """Without the images."""
        return {
            **asdict(self.plan),
            "unlabelled_images": len(self.index_N),
            "least_probability": SURE,
            "trained_once": self.kept is not None,
        }


def taught(
    desk: Desk, encoder: nn.Module, exam: Exam, validation: Exam | None, seconds: float, allowed: float
) -> tuple[Course, Row, Classified] | None:
    """How it was done, the row of the table, and the network; or nothing, and a line that says why.

    `seconds` is what pre-training took, and `allowed` what this may take.
    """
    labels_M, start = desk.dataset.labels_M, time.monotonic()
    index_N = without_label(desk, labels_M)
    if not len(index_N):
        desk.say(f"{ON_ALL}: left out, as every image has a label")
        return None
    epochs = desk.config.epochs or 0.0
    if isinstance(desk.dataset.images, ImageFiles) and epochs < _FEWEST_EPOCHS:
        desk.say(
            f"{ON_ALL}: left out, too little time to read files once more: pre-training had "
            f"{counted(f'{epochs:g}', 'epoch')} of them, and it needs {_FEWEST_EPOCHS}"
        )
        return None
    others = collect(desk, index_N, labels_M)
    each = _seconds_of_step(desk, encoder, others, index_N)
    steps = affordable(allowed, time.monotonic() - start, each)
    twice = longest_plan(len(index_N), steps // _TRAININGS, _FEWEST)
    plan = twice or longest_plan(len(index_N), steps, _FEWEST_ALONE)
    if plan is None:
        fewest = fewest_steps(len(index_N), _FEWEST_ALONE)
        desk.say(f"{ON_ALL}: left out, too little time for {fewest:,} steps ({steps:,} fit)")
        return None
    course = Course(plan, others, index_N)
    model = course.run(desk, encoder, labels_M, "fine-tuning on all images")
    took = seconds + time.monotonic() - start
    row = examined(OURS, ON_ALL, lambda of: answers(desk, model, of), exam, validation, took)
    if twice is None:
        course = replace(course, kept=model)
        if validation is not None:
            desk.say(f"{ON_ALL}: no time for a second training, which would have the validation labels, too")
    return course, row, model


def allowance(pretraining: float, left: float | None) -> float:
    """Seconds for reading and both trainings: all that are left, and half as long as pre-training where these
    are fewer, or there is no end: a slow scan or baseline should not cost the usual way.
    """
    return max(_SHARE * pretraining, left or 0.0)


def affordable(allowed: float, spent: float, each: float) -> int:
    """Steps of all trainings, so that these and reading take no longer than allowed."""
    return max(int((allowed - spent) / each), 0)


def fewest_steps(num_unlabelled: int, fewest: int) -> int:
    """Three epochs at least, and so many."""
    return max(make_plan(num_unlabelled, _LEAST_EPOCHS).steps, fewest)


def longest_plan(num_unlabelled: int, steps: int, fewest: int) -> Plan | None:
    """Of at most so many steps; 450 epochs are enough, or those of evaluate where they are more."""
    if steps < fewest_steps(num_unlabelled, fewest):
        return None
    usual = make_plan(num_unlabelled)
    epochs = min(steps * usual.unlabelled // num_unlabelled, max(usual.epochs, _MOST_EPOCHS))
    return make_plan(num_unlabelled, epochs)


def _seconds_of_step(desk: Desk, encoder: nn.Module, others: Material, index_N: Tensor) -> float:
    clock = StepClock(desk.device)
    fit, lot = _start(desk, encoder, desk.dataset.labels_M, others, index_N)
    plan = replace(make_plan(len(index_N)), steps=clock.steps)
    teach(desk, encoder, fit, lot, plan, sure=SURE, seed=desk.config.seed, title=None, advance=clock.tick)
    return clock.seconds


def _start(
    desk: Desk, encoder: nn.Module, labels_M: Tensor, others: Material, index_N: Tensor
) -> tuple[LinearFit, Lot]:
    """The linear way on frozen features, and the images."""
    index_L = (labels_M != UNLABELLED).nonzero().squeeze(1)
    fit = desk.linear(desk.features(encoder, desk.dataset.images[index_L]), labels_M[index_L])
    return fit, Lot(collect(desk, index_L, labels_M), others, index_N)
