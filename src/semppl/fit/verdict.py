"""The table of accuracies and what it means in plain words. Shapes: N images of the exam."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from semppl.evaluate.exam import Exam, Mark, marked, surely_better
from semppl.protocols.results import Number

OURS, START, SUPERVISED = "SemPPL", "frozen at its start", "supervised only"
ON_ALL: Final = "fine-tuned on all images"
"""The way that learns from images without a label, too."""
# the first that is there, unless another is surely better
_USUAL: Final = (ON_ALL, "linear")


Answer = Callable[[Exam], Tensor]
"""A label for each image of an exam."""


@dataclass(frozen=True)
class Row:
    """One way to use the labels, marked in the exam."""

    name: str
    way: str
    mark: Mark
    right_N: Tensor
    validation: float | None = None
    """Accuracy in per cent on the labels that choices were made on."""
    validation_labels: int = 0
    """How many they are."""
    seconds: float | None = None
    """Of training."""

    @property
    def number(self) -> Number:
        """For beside the results of `semppl evaluate`."""
        return Number(f"{self.name}, {self.way}", self.mark.accuracy, self.mark.low, self.mark.high)

    def as_json(self) -> dict[str, Any]:
        """Without the single answers."""
        return {
            "name": self.name,
            "way": self.way,
            "accuracy": self.mark.accuracy,
            "interval_95": [self.mark.low, self.mark.high],
            "validation_accuracy": self.validation,
            "training_seconds": self.seconds,
        }


def examined(
    name: str, way: str, answer: Answer, exam: Exam, validation: Exam | None, seconds: float | None
) -> Row:
    """A row from answers to both exams; one that stands for both is asked once."""
    right_N = exam.mark(answer(exam))
    on_validation, count = None, 0
    if validation is not None:
        right_V = right_N if validation.kind == exam.kind else validation.mark(answer(validation))
        on_validation, count = marked(right_V).accuracy, len(right_V)
    return Row(name, way, marked(right_N), right_N, on_validation, count, seconds)


def chosen(rows: Sequence[Row]) -> Row:
    """Which of our ways goes into the model: the best on the validation labels, of equals the first.

    The one on all images is taken, or else the linear one, unless another is better by more than one standard
    error of its accuracy: a few dozen labels would else choose by chance. Where none of them is held out, it
    is the linear one: nobody would see that a longer training went wrong.
    """
    ours = {row.way: row for row in rows if row.name == OURS}
    best = max(ours.values(), key=lambda row: -1.0 if row.validation is None else row.validation)
    usual = next(ours[way] for way in _USUAL if way in ours)
    if usual.validation is None or best.validation is None:
        return ours["linear"]
    share = best.validation / 100
    error = 100 * math.sqrt(share * (1 - share) / best.validation_labels)
    return best if best.validation - usual.validation > error else usual


def verdict(rows: Sequence[Row], exam: Exam) -> str:
    """Whether it was worth it: the chosen way against the best of the baselines."""
    mine = chosen(rows)
    others = [row for row in rows if row.name != OURS]
    if exam.kind == "training":
        return "Not measured: no label was left to measure on; give --test, or more labels for each class"
    said = f"{mine.mark.accuracy:.1f} % ({mine.way}) on {exam.describe()}"
    if exam.kind == "validation":
        said += ", on which that way was chosen, so it is a little too good"
    if not others:
        return f"SemPPL: {said}; no baseline was run"
    best = max(others, key=lambda row: row.mark.accuracy)
    against = f"{best.mark.accuracy:.1f} % by {best.name} ({best.way})"
    if surely_better(mine.right_N, best.right_N):
        return f"SemPPL helped: {said}, against {against}"
    if surely_better(best.right_N, mine.right_N):
        return f"Do not use this model: {best.name} ({best.way}) is better: {said}, against {against}"
    return f"No clear difference: {said}, against {against}"


def table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Lines of text: name, way, accuracy with its interval, seconds of training."""
    return [
        (row.name, row.way, str(row.mark), "" if row.seconds is None else f"{row.seconds:.0f} s")
        for row in rows
    ]
