"""Beyond the paper: confident answers join the labels of fine-tuning.

A network that was fine-tuned on the labels answers for the training images without one; where it is sure, its
answer counts as a label, and the pre-trained network is fine-tuned anew on both. Withheld truth is asked only
for how many of these were right, after the fact.

Shapes: M images of the set, L labelled ones, N without a label, J that join.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.protocols.desk import Desk


@dataclass(frozen=True)
class Joined:
    """What a network is fine-tuned on."""

    index_L: Tensor
    labels_L: Tensor
    facts: dict[str, Any]
    """How many joined, of how many, and how many of them were right where that is known."""


def join(desk: Desk, teacher: nn.Module, labels_M: Tensor, least: float) -> Joined:
    """Given labels first, then the teacher's answers of at least that probability."""
    given_L = (labels_M != UNLABELLED).nonzero().squeeze(1)
    others_N = without_label(desk, labels_M)
    index_J, answers_J = confident(desk, teacher, others_N, least)
    facts = {"least_probability": least, "joined": len(index_J), "of": len(others_N)}
    if (right := _right(desk.dataset.hidden, index_J, answers_J)) is not None:
        facts["right"] = right
    return Joined(torch.cat([given_L, index_J]), torch.cat([labels_M[given_L], answers_J]), facts)


def without_label(desk: Desk, labels_M: Tensor) -> Tensor:
    """Training images that have no label to use, nor one that is held out."""
    return (desk.given_M == UNLABELLED).logical_and(labels_M == UNLABELLED).nonzero().squeeze(1)


def confident(desk: Desk, teacher: nn.Module, index_N: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Images that the teacher is sure of, and its answers."""
    if not len(index_N):
        return index_N, index_N
    logits_NY = desk.logits(teacher, desk.dataset.images[index_N], "answers for images without a label")
    probability_N, answer_N = logits_NY.float().softmax(1).max(1)
    sure_N = probability_N >= least
    return index_N[sure_N], answer_N[sure_N]


def _right(hidden: HiddenLabels | None, index_J: Tensor, answers_J: Tensor) -> float | None:
    """Share of them, where withheld truth is known."""
    if hidden is None or not len(index_J):
        return None
    right, known = hidden.agreement(index_J, answers_J, torch.zeros_like(index_J), 1)[0].tolist()
    return right / known if known else None
