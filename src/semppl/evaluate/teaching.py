"""Student and teacher: one learns from labels and from answers, the other is its average over time.

Labelled and hard views go through the student together, so batch norm sees both.

Shapes: B labelled views of a step, U images without a label of a step, Y classes, s side.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from semppl.evaluate.bookmark import Part, steps_left
from semppl.evaluate.consistency import (
    Answers,
    align,
    doubtful_loss,
    follow,
    masked_loss,
    sure_answers,
)
from semppl.evaluate.descent import PLAIN, Examples, Means, Strides
from semppl.evaluate.linear import LinearFit
from semppl.method.target import Target


class Pair(NamedTuple):
    """Two views of the images without a label of a step, on the device."""

    easy_U3ss: Tensor
    hard_U3ss: Tensor
    index_U: Tensor
    """Positions in the data set."""


Pairs: TypeAlias = Callable[[int], Pair]
"""Step → pair; the same step always gives the same."""


Watch: TypeAlias = Callable[[int, Tensor, Answers], None]
"""Hears of a step, positions [U] and answers; must not ask the device for a number."""


@final
class Classified(nn.Module):
    """Images → encoder → logits of the classes."""

    def __init__(self, encoder: nn.Module, classifier: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier

    def forward(self, images_B3ss: Tensor) -> Tensor:
        """Logits [B, Y]."""
        return self.classifier(self.encoder(images_B3ss))


def create_student(encoder: nn.Module, fit: LinearFit) -> Classified:
    """A copy of the encoder, and a classifier that answers as the fit does: the first answers are good."""
    classes, features = fit.weight_YF.shape
    classifier = nn.Linear(features, classes)
    with torch.no_grad():
        classifier.weight.copy_(fit.weight_YF)
        classifier.bias.copy_(fit.bias_Y)
    return Classified(deepcopy(encoder), classifier).requires_grad_()


@torch.no_grad()
def average_(teacher: Target[Any], student: nn.Module, decay: float) -> None:
    """Parameters and statistics of batch norm: the teacher answers by running statistics, so they must be
    those of its weights.
    """
    teacher.update_(student, decay)
    buffers = [*zip(teacher.module.buffers(), student.buffers(), strict=True)]
    averaged = [pair for pair in buffers if pair[0].is_floating_point() and decay]
    copied = [pair for pair in buffers if not (pair[0].is_floating_point() and decay)]
    if averaged:
        torch._foreach_lerp_([mine for mine, _ in averaged], [theirs for _, theirs in averaged], 1 - decay)
    if copied:
        torch._foreach_copy_([mine for mine, _ in copied], [theirs for _, theirs in copied])


def forward(network: nn.Module, views_B3ss: Tensor) -> Tensor:
    """Logits; a function so that one compiled version serves student and teacher."""
    return network(views_B3ss)


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """What a step does and does not change."""

    prior_Y: Tensor
    least: float
    """Probability of a sure answer."""
    decay: float
    """Of the teacher."""
    doubtful: bool = False
    """Whether answers that are not sure teach, too."""
    means: Means = PLAIN
    forward: Callable[[nn.Module, Tensor], Tensor] = forward
    """Compiled or not."""


@final
class Lesson:
    """A student and its teacher, changed step by step."""

    def __init__(self, student: nn.Module, optimizer: Optimizer, teaching: Teaching) -> None:
        self._student, self._optimizer, self._teaching = student.train(), optimizer, teaching
        self.teacher = Target(student)
        self.teacher.module.eval()
        self._mean_Y = teaching.prior_Y.clone()
        self._stride = Strides(self._learn_, optimizer, teaching.means.recorder)

    @property
    def parts(self) -> Mapping[str, Part]:
        """All that a step changes."""
        return {
            "student": self._student,
            "optimizer": self._optimizer,
            "teacher": self.teacher.module,
            "mean": self._mean_Y,
        }

    def step_(self, labelled: tuple[Tensor, Tensor], pair: Pair, rate: float) -> Answers:
        """The answers are those of this step until the next one."""
        rates = [rate] * len(self._optimizer.param_groups)
        return self._stride(rates, [*labelled, pair.easy_U3ss, pair.hard_U3ss])

    def _learn_(self, inputs: Sequence[Tensor]) -> Answers:
        """Labelled and hard views go through the student together, so batch norm sees both."""
        how, (views_B3ss, labels_B, easy_U3ss, hard_U3ss) = self._teaching, inputs
        with how.means.precision(), torch.no_grad():
            answers_UY = how.forward(self.teacher.module, easy_U3ss).float().softmax(1)
        self._mean_Y.copy_(follow(self._mean_Y, answers_UY))
        answers_UY = align(answers_UY, self._mean_Y, how.prior_Y)
        answers = sure_answers(answers_UY, how.least)
        with how.means.precision():
            logits = how.forward(self._student, torch.cat([views_B3ss, hard_U3ss]))
        logits_BY, logits_UY = logits.float().split([len(labels_B), len(hard_U3ss)])
        loss = F.cross_entropy(logits_BY, labels_B) + masked_loss(logits_UY, answers)
        if how.doubtful:
            loss = loss + doubtful_loss(logits_UY, answers_UY, answers.sure_U)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        average_(self.teacher, self._student, how.decay)
        return answers


def learn_(
    student: nn.Module,
    labelled: Examples,
    pairs: Pairs,
    optimizer: Optimizer,
    rate: Callable[[int], float],
    steps: int,
    teaching: Teaching,
    *,
    watch: Watch | None = None,
    advance: Callable[[int], None] | None = None,
) -> nn.Module:
    """Train the student; what comes back is its teacher, in evaluation mode."""
    lesson = Lesson(student, optimizer, teaching)
    for step in steps_left(steps, lesson.parts, teaching.means.bookmark):
        examples, pair = labelled(step), pairs(step)
        answers = lesson.step_(examples, pair, rate(step))
        if watch is not None:
            watch(step, pair.index_U, answers)
        if advance is not None:
            advance(step + 1)
    return lesson.teacher.module
