"""The table of accuracies and what it means in plain words.

Shapes: N images of the exam, V validation labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from semppl.evaluate.exam import Exam, Mark, marked, surely_better
from semppl.protocols.results import Number

OURS, START, SUPERVISED = "SemPPL", "frozen at its start", "supervised only"
ON_ALL: Final = "fine-tuned on all images"
"""The way that learns from images without a label, too."""
# the first that is there, unless another leads by more than two equally good ways would one time in ten
_USUAL: Final = (ON_ALL, "linear")
_ONE_IN: Final = 10


Answer = Callable[[Exam], Tensor]
"""A label for each image of an exam."""


@dataclass(frozen=True)
class Row:
    """One way to use the labels, marked in the exam."""

    name: str
    way: str
    mark: Mark
    right_N: Tensor
    right_V: Tensor | None = None
    """On the labels that choices were made on, the same ones in every row."""
    seconds: float | None = None
    """Of training."""

    @property
    def validation(self) -> float | None:
        """Accuracy on these in per cent."""
        return None if self.right_V is None else marked(self.right_V).accuracy

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
    right_N, right_V = exam.mark(answer(exam)), None
    if validation is not None:
        right_V = right_N if validation.kind == exam.kind else validation.mark(answer(validation))
    return Row(name, way, marked(right_N), right_N, right_V, seconds)


def chosen(rows: Sequence[Row]) -> Row:
    """Which of our ways goes into the model: the one on all images, or else the linear one, unless another is
    better on the validation labels; of several that are, the best.

    Only labels that one of the two alone has right tell them apart, so the exact test counts these: without
    a loss it takes four wins. One time in ten is less than a claim needs, for either choice may be wrong; and
    more than a mere lead, for the usual way was better nearly wherever it was measured, and the rates of
    fine-tuning were chosen on the same labels. Where none is held out it is the linear one: nobody would see
    that a longer training went wrong.
    """
    ours = {row.way: row for row in rows if row.name == OURS}
    usual = next(ours[way] for way in _USUAL if way in ours)
    if usual.right_V is None:
        return ours["linear"]
    better = [row for row in ours.values() if _leads(row.right_V, usual.right_V)]
    return max(better, key=lambda row: row.validation or 0.0, default=usual)


def _leads(right_V: Tensor | None, usual_V: Tensor) -> bool:
    return right_V is not None and surely_better(right_V, usual_V, one_in=_ONE_IN)


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
