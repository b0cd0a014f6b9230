"""Fine-tuning with consistency, beyond the paper: FixMatch with an averaged teacher and aligned answers.

Every step has images with a label and images without. The teacher, whose weights are an average of the
student's over time, answers for an easy view of those without; where it is sure, the student learns that
answer on a hard view of the same image. Unlike labels that join once (`protocols/self_training.py`), answers
are asked for anew each time an image comes by, so they become better as the teacher does.

A short training is another one. SGD at the rate of a long one first ruins a good start and has no time to
mend it, so AdamW takes small steps; and as few answers are sure yet, the doubtful ones teach, too, each class
by its probability (docs/fit-measured.md, "Few steps of fine-tuning on all images", has what each gives).

Shapes: L labels, B labelled views of a step, U images without a label of a step, Y classes, E epochs, s side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.core.hidden import HiddenLabels
from semppl.optim.schedule import warmup_cosine

# epochs, batch, rate, weight decay and teacher are the better of two settings of a prototype on validation
# images of CIFAR-10 with 4,000 labels, one seed; a rate of 0.08 was worse
EPOCHS: Final = 60
RATE: Final = 0.03
# of AdamW, in short trainings
SHORT_RATE: Final = 0.001
WEIGHT_DECAY: Final = 5e-4
_BATCH: Final = 512
_DECAY: Final = 0.999
# images without a label for each one with a label
_RATIO: Final = 4
# a small set has smaller batches, or 60 epochs of it would be a few dozen steps; below 32 of them batch norm
# would see little
_FEWEST_IN_BATCH: Final = 32
_STEPS_OF_EPOCH: Final = 16
# a training with fewer is a short one
_FEWEST_STEPS: Final = 1000
# a teacher that remembers more than a fifth of a short training would end near where it started
_MEMORY: Final = 0.2
# of the steps; 60 epochs had one of warm-up
_WARMUP: Final = 1 / 60
# the mean of the answers is one over about a hundred batches
_MEAN_DECAY: Final = 0.99


class Answers(NamedTuple):
    """What the teacher says."""

    label_U: Tensor
    sure_U: Tensor
    """Whether the student learns it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long, and in what portions."""

    epochs: int
    """Of the images without a label."""
    unlabelled: int
    """Images of a step."""
    labelled: int
    steps: int
    rate: float
    decay: float
    """Of the teacher."""
    optimizer: Literal["sgd", "adamw"]
    doubtful: bool
    """Whether answers that are not sure teach, too."""

    def learning_rate(self, step: int) -> float:
        """Up to its peak at once, and down to 0 by a cosine."""
        return warmup_cosine(step, peak=self.rate, warmup=round(self.steps * _WARMUP), total=self.steps)


def make_plan(num_unlabelled: int, epochs: int | None = None, *, answers: bool = True) -> Plan:
    """By the number of images: from 8,192 on the batches that were searched; fewer in a smaller set, and at
    least 1,000 steps unless `epochs` says otherwise. With fewer steps it is a short training. Without
    `answers` labels teach alone.
    """
    unlabelled = min(max(num_unlabelled // _STEPS_OF_EPOCH, _FEWEST_IN_BATCH), _BATCH)
    if epochs is None:
        epochs = max(EPOCHS, math.ceil(_FEWEST_STEPS * unlabelled / num_unlabelled))
    steps = math.ceil(epochs * num_unlabelled / unlabelled)
    short = steps < _FEWEST_STEPS
    return Plan(
        epochs=epochs,
        unlabelled=unlabelled,
        labelled=unlabelled // _RATIO,
        steps=steps,
        rate=SHORT_RATE if short else RATE,
        decay=min(_DECAY, max(1 - 1 / (_MEMORY * steps), 0.0)),
        optimizer="adamw" if short else "sgd",
        doubtful=short and answers,
    )


def class_prior(labels_L: Tensor, classes: int) -> Tensor:
    """Share of each class among the labels [Y]."""
    return torch.bincount(labels_L, minlength=classes) / len(labels_L)


def follow(mean_Y: Tensor, answers_UY: Tensor) -> Tensor:
    """The running mean of answers after one more batch of them."""
    return mean_Y.lerp(answers_UY.mean(0), 1 - _MEAN_DECAY)


def align(answers_UY: Tensor, mean_Y: Tensor, prior_Y: Tensor) -> Tensor:
    """Probabilities whose mean is nearer to the prior: p · prior / mean, each row divided by its sum.

    A class that is answered too often would be learnt too often, and then be answered even more.
    """
    least = torch.finfo(answers_UY.dtype).tiny
    aligned_UY = answers_UY * (prior_Y / mean_Y.clamp(min=least))
    return aligned_UY / aligned_UY.sum(1, keepdim=True).clamp(min=least)


def sure_answers(answers_UY: Tensor, least: float) -> Answers:
    """The likeliest class, sure where its probability is at least `least`.

    Nothing is sure for a least probability of 1: float32 rounds up to it, so it would mean no more than very
    sure, and without sure answers the labels train alone.
    """
    probability_U, label_U = answers_UY.max(1)
    return Answers(label_U, (probability_U >= least) & (least < 1))


def masked_loss(logits_UY: Tensor, answers: Answers) -> Tensor:
    """Cross-entropy of sure answers over all images: the fewer are sure, the less they weigh."""
    losses_U = F.cross_entropy(logits_UY, answers.label_U, reduction="none")
    return (losses_U * answers.sure_U).mean()


def doubtful_loss(logits_UY: Tensor, answers_UY: Tensor, sure_U: Tensor) -> Tensor:
    """Cross-entropy of the other answers, each class by its probability, over all images."""
    losses_U = F.cross_entropy(logits_UY, answers_UY, reduction="none")
    return (losses_U * ~sure_U).mean()


@final
class Tally:
    """How many answers were sure, and how many of these right, by epoch: on the device until asked.

    Withheld truth is asked only here, and nothing that is trained hears of it.
    """

    def __init__(self, epochs: int, hidden: HiddenLabels | None, device: torch.device) -> None:
        self._hidden = None if hidden is None else hidden.to(device)
        self.table_E4 = torch.zeros(epochs, 4, dtype=torch.long, device=device)
        """Answers, sure ones, right ones, and those whose truth is known."""

    def count_(self, epoch: int, index_U: Tensor, answers: Answers) -> None:
        """One step of an epoch."""
        row_4 = self.table_E4[epoch]
        row_4[0] += len(index_U)
        row_4[1] += answers.sure_U.sum()
        if self._hidden is not None:
            group_U = answers.sure_U.long() - 1
            row_4[2:] += self._hidden.agreement(index_U, answers.label_U, group_U, 1)[0]

    def as_json(self) -> Sequence[dict[str, Any]]:
        """Shares of each epoch: `coverage` of the answers were sure, `right` of the sure ones whose truth is
        known.
        """
        rows = []
        for epoch, (answers, sure, right, known) in enumerate(self.table_E4.tolist(), start=1):
            row: dict[str, Any] = {"epoch": epoch, "coverage": sure / max(answers, 1)}
            rows.append(row | ({"right": right / known} if known else {}))
        return rows
