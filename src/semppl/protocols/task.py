"""Which labels a classifier is fitted with, which ones choose its settings, and what it is marked on.

Shapes: M images of the set, L labelled images, V labels that choose, N images of the exam.
"""

import sys
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.splits import hold_out
from semppl.evaluate.exam import Exam, final_exam, revealed, truth_of

Which = Literal["given", "all"]


@dataclass(frozen=True)
class Task:
    """Settings are chosen with `fit_L` and `choose_V`; the classifier that is marked gets both."""

    fit_L: Tensor
    """Positions in the data set."""
    choose_V: Tensor
    """The same of labels that choose; empty where there are too few."""
    labels_M: Tensor
    """−1 where there is none, or none that may be used."""
    exam: Exam
    truth_N: Tensor
    which: Which

    @property
    def all_L(self) -> Tensor:
        """Positions of all labels that may be used."""
        return (self.labels_M != UNLABELLED).nonzero().squeeze(1)

    def as_json(self) -> dict[str, Any]:
        """What is needed to trust a number."""
        return {
            "labels": {"which": self.which, "used": len(self.all_L), "choosing": len(self.choose_V)},
            "test": {"kind": self.exam.kind, "images": len(self.exam)},
        }

    def describe(self) -> str:
        """What the numbers stand on."""
        kind = {"given": "given", "all": "true"}[self.which]
        return f"{len(self.all_L):,} {kind} labels; {self.exam.describe()}"


def build_task(dataset: Dataset, *, which: Which, share: float, seed: int) -> Task:
    """`given`: the labels that the run had, those held out for validation included unless they are the exam.
    `all`: true labels of all images.

    Labels of validation choose; without any, a share of the others does.
    """
    exam = final_exam(dataset, most=sys.maxsize)
    if exam is None:
        raise UserError(f"{dataset.name}: nothing to measure on: give test images (--test) or more labels")
    labels_M = dataset.labels_M
    if dataset.held_out_M is not None and exam.kind != "validation":
        labels_M = labels_M.where(labels_M != UNLABELLED, dataset.held_out_M)
    if which == "all":
        labels_M = _all_labels(dataset, exam, labels_M)
    set_aside = which == "given" and exam.kind != "validation" and len(dataset.validation_V)
    if set_aside and dataset.held_out_M is not None:
        fit_M, choose_M = dataset.labels_M, dataset.held_out_M
    else:
        fit_M, choose_M = hold_out(labels_M, share, seed)
    return Task(
        fit_L=(fit_M != UNLABELLED).nonzero().squeeze(1),
        choose_V=(choose_M != UNLABELLED).nonzero().squeeze(1),
        labels_M=labels_M,
        exam=exam,
        truth_N=truth_of(exam, len(dataset.classes)),
        which=which,
    )


def _all_labels(dataset: Dataset, exam: Exam, labels_M: Tensor) -> Tensor:
    if exam.kind != "test":
        raise UserError(
            f"{dataset.name}: --labels all leaves nothing to measure on, for there are no test images: give "
            "--test, or use the given labels"
        )
    if dataset.hidden is None:
        return labels_M
    truth_M = revealed(dataset.hidden, len(labels_M), len(dataset.classes))
    return labels_M.where(labels_M != UNLABELLED, truth_M)
