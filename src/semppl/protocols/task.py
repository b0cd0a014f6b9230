"""Which labels a classifier is fitted with, which ones choose its settings, and what it is marked on.

Shapes: M images of the set, L labelled images, V labels that choose, N images of the exam.
"""

import sys
from dataclasses import dataclass
from typing import Any, Final, Literal

from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.splits import hold_out
from semppl.evaluate.exam import Exam, final_exam, revealed, truth_of

Which = Literal["given", "all"]
# of withheld labels: more make the exam longer and hardly surer; test images are all asked
_MOST_WITHHELD: Final = 50_000


@dataclass(frozen=True)
class Labels:
    """Settings are chosen with `fit_L` and `choose_V`; the classifier that is marked gets both."""

    fit_L: Tensor
    """Positions in the data set."""
    choose_V: Tensor
    """The same of labels that choose; empty where there are too few."""
    labels_M: Tensor
    """−1 where there is none, or none that may be used."""
    which: Which

    @property
    def all_L(self) -> Tensor:
        """Positions of all labels that may be used."""
        return (self.labels_M != UNLABELLED).nonzero().squeeze(1)

    def describe(self) -> str:
        """What a classifier stands on."""
        if self.which == "given":
            return f"{len(self.all_L):,} given labels"
        return f"{len(self.all_L):,} labels, all that are known of {len(self.labels_M):,} images"

    def as_json(self) -> dict[str, Any]:
        """What is needed to trust a number."""
        return {"which": self.which, "count": len(self.all_L), "choosing": len(self.choose_V)}


@dataclass(frozen=True)
class Task:
    """Labels, and the exam of the run's own data."""

    labels: Labels
    exam: Exam
    truth_N: Tensor

    def describe(self) -> str:
        """What the numbers stand on."""
        return f"{self.labels.describe()}; {self.exam.describe()}"


def build_task(dataset: Dataset, *, which: Which, share: float, seed: int) -> Task:
    """The exam is on test images, else on withheld labels or those for validation, whichever are more."""
    most = _MOST_WITHHELD if dataset.test_images is None else sys.maxsize
    exam = final_exam(dataset, most=most)
    if exam is None:
        raise UserError(
            f"{dataset.name}: nothing to measure on: a run with --test, withheld or more labels is needed"
        )
    labels = build_labels(dataset, exam, which=which, share=share, seed=seed)
    return Task(labels, exam, truth_of(exam, len(dataset.classes)))


def build_labels(
    dataset: Dataset, exam: Exam | None = None, *, which: Which, share: float, seed: int
) -> Labels:
    """`given`: the labels that the run had, those held out for validation included unless they are the exam.
    `all`: withheld ones, too.

    Labels of validation choose; without any, a share of the others does.
    """
    spent = exam is not None and exam.kind == "validation"
    labels_M = dataset.labels_M
    if dataset.held_out_M is not None and not spent:
        labels_M = labels_M.where(labels_M != UNLABELLED, dataset.held_out_M)
    if which == "all":
        labels_M = _all_labels(dataset, exam, labels_M)
    if not (labels_M != UNLABELLED).any():
        raise UserError(f"{dataset.name}: no image has a label: there is nothing to fit a classifier with")
    if which == "given" and not spent and dataset.held_out_M is not None and len(dataset.validation_V):
        fit_M, choose_M = dataset.labels_M, dataset.held_out_M
    else:
        fit_M, choose_M = hold_out(labels_M, share, seed)
    fit_L, choose_V = ((part_M != UNLABELLED).nonzero().squeeze(1) for part_M in (fit_M, choose_M))
    return Labels(fit_L, choose_V, labels_M, which)


def _all_labels(dataset: Dataset, exam: Exam | None, labels_M: Tensor) -> Tensor:
    if exam is not None and exam.kind != "test":
        raise UserError(
            f"{dataset.name}: --labels all leaves nothing to measure on, for the run has no test images"
        )
    if dataset.hidden is not None:
        truth_M = revealed(dataset.hidden, len(labels_M), len(dataset.classes))
        labels_M = labels_M.where(labels_M != UNLABELLED, truth_M)
    return labels_M
