"""The images that answers are marked on, and what a mark is worth. Shapes: N images of the exam."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset, evenly
from semppl.data.images import Images

Kind = Literal["test", "withheld", "validation", "training"]

# images of an exam: more make it longer and not much surer
MOST: Final = 10_000
_Z: Final = 1.96


@dataclass(frozen=True)
class Exam:
    """Images, and a way to mark answers that tells nothing else about their labels."""

    kind: Kind
    images: Images
    mark: Callable[[Tensor], Tensor]
    """Answers [N] → which are right [N]."""

    def __len__(self) -> int:
        return len(self.images)

    def describe(self) -> str:
        """What the numbers stand on."""
        words = {
            "test": "test images",
            "withheld": "images whose label was withheld",
            "validation": "labels held out for validation",
            "training": "labels of training itself",
        }
        return f"{len(self):,} {words[self.kind]}"


def final_exam(dataset: Dataset, most: int = MOST) -> Exam | None:
    """On test images if there are any, else on withheld or on validation labels, whichever are more.

    At most `most` images, spread over the whole.
    """
    if dataset.test_images is not None and dataset.test_labels_T is not None and len(dataset.test_labels_T):
        index = evenly(torch.arange(len(dataset.test_labels_T)), most)
        truth = dataset.test_labels_T[index]
        return Exam("test", dataset.test_images[index], partial(_equal, truth))
    withheld, validation = withheld_exam(dataset, most), validation_exam(dataset, most)
    if withheld is not None and (validation is None or len(withheld) >= len(validation)):
        return withheld
    return validation


def withheld_exam(dataset: Dataset, most: int = MOST) -> Exam | None:
    """On images whose label is known to nobody but the hidden truth."""
    if dataset.hidden is None:
        return None
    free_M = dataset.labels_M == UNLABELLED
    free_M[dataset.validation_V] = False
    index = free_M.nonzero().squeeze(1)
    known = _asked(dataset.hidden, index, torch.zeros_like(index))[:, 1].bool()
    index = evenly(index[known], most)
    if not len(index):
        return None
    return Exam("withheld", dataset.images[index], partial(_as_hidden, dataset.hidden, index))


def validation_exam(dataset: Dataset, most: int = MOST) -> Exam | None:
    """On the given labels that were set aside."""
    index = evenly(dataset.validation_V, most)
    if dataset.held_out_M is None or not len(index):
        return None
    return Exam("validation", dataset.images[index], partial(_equal, dataset.held_out_M[index]))


def _equal(truth_N: Tensor, answer_N: Tensor) -> Tensor:
    return answer_N.cpu() == truth_N


def _as_hidden(hidden: HiddenLabels, index_N: Tensor, answer_N: Tensor) -> Tensor:
    return _asked(hidden, index_N, answer_N.cpu())[:, 0].bool()


def _asked(hidden: HiddenLabels, index_N: Tensor, answer_N: Tensor) -> Tensor:
    """[N, 2]: right, known."""
    return hidden.agreement(index_N, answer_N, torch.arange(len(index_N)), len(index_N))


def truth_of(exam: Exam, classes: int) -> Tensor:
    """The labels of an exam [N], for a confusion matrix: found by asking for each class who is in it.

    Only for when nothing is left to choose.
    """
    truth_N = torch.full((len(exam),), UNLABELLED)
    for label in range(classes):
        truth_N[exam.mark(torch.full((len(exam),), label))] = label
    return truth_N


def revealed(hidden: HiddenLabels, count: int, classes: int) -> Tensor:
    """Withheld labels of all images [count], −1 where nothing is known: for a classifier that may see all."""
    index_M = torch.arange(count)
    truth_M = torch.full((count,), UNLABELLED)
    for label in range(classes):
        truth_M[_as_hidden(hidden, index_M, torch.full((count,), label))] = label
    return truth_M


class Mark(NamedTuple):
    """Accuracy in per cent with its 95 % interval (Wilson)."""

    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.accuracy:.1f} ({self.low:.1f} to {self.high:.1f})"


def marked(right_N: Tensor) -> Mark:
    """From the answers of one exam."""
    return mark_of(float(right_N.double().mean()), len(right_N))


def mark_of(share: float, count: int) -> Mark:
    """From the share of right answers among so many."""
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Mark(100 * share, max(100 * (centre - half), 0.0), min(100 * (centre + half), 100.0))


def surely_better(right_N: Tensor, other_N: Tensor, *, one_in: int = 40) -> bool:
    """Whether the first of two on the same images is better by more than chance.

    McNemar's test in its exact form: among the images on which one of the two is right, heads or tails. Of
    two equally good ones the first leads by so much at most one time in 40: on two sides, 5 %.
    """
    wins = int((right_N & ~other_N).sum())
    losses = int((~right_N & other_N).sum())
    count = wins + losses
    tail = ways = 1  # of as few losses or fewer; each next one from the last, for thousands of them
    for i in range(losses):
        ways = ways * (count - i) // (i + 1)
        tail += ways
    return wins > losses and tail * one_in <= 2**count
