"""The trained encoder beside its baselines, all in one exam.

Shapes: N images of the exam, L labelled images for training, F features.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from semppl.core.labels import UNLABELLED
from semppl.evaluate.bank import ShareTrust, build_bank, precision_by_share
from semppl.evaluate.exam import Exam, final_exam, validation_exam
from semppl.evaluate.linear import fit_linear
from semppl.fit.desk import Desk
from semppl.fit.supervised import fresh, supervised
from semppl.fit.tuning import Tuning, fine_tuned
from semppl.fit.verdict import OURS, START, Answer, Row, examined
from semppl.nets.heads import Projected


@dataclass(frozen=True)
class Measured:
    """What the stages after this one need."""

    rows: list[Row]
    exam: Exam
    tuning: Tuning | None
    """Of the fine-tuning, where it was done."""
    trust: list[ShareTrust]
    """How often votes are right, on labels that did not vote."""


def measure(desk: Desk, online: Projected, seconds: float, *, finetune: bool, baselines: bool) -> Measured:
    """All rows of the table. `seconds` is what pre-training took: the supervised baseline gets as much."""
    exam, validation = final_exam(desk.dataset), validation_exam(desk.dataset)
    if exam is None:
        exam = _own_labels(desk)
    rows = _frozen(desk, OURS, online.encoder, exam, validation, seconds)
    tuning = None
    if finetune:
        tuning, row = fine_tuned(desk, online, exam, validation, seconds)
        rows.append(row)
    if baselines:
        rows += _frozen(desk, START, fresh(desk), exam, validation, None)
        rows.append(supervised(desk, exam, validation, seconds))
    return Measured(rows, exam, tuning, _trust(desk, online.encoder))


def _own_labels(desk: Desk) -> Exam:
    """Nothing is held out: the labels themselves, which flatters everybody, and is said so."""
    index_L = desk.dataset.labelled_L
    truth_L = desk.dataset.labels_M[index_L]
    desk.say(
        "no label is left to measure on: the figures below are on the very labels of training and mean "
        "little; give --test, or three labels or more for each class"
    )
    return Exam("validation", desk.dataset.images[index_L], lambda answer_L: answer_L.cpu() == truth_L)


def _frozen(
    desk: Desk,
    name: str,
    encoder: nn.Module,
    exam: Exam,
    validation: Exam | None,
    seconds: float | None,
) -> list[Row]:
    """k-NN and linear on features that stay as they are."""
    dataset, classes = desk.dataset, len(desk.dataset.classes)
    labelled_LF = desk.features(encoder, dataset.images[dataset.labelled_L])
    labels_L = dataset.labels_M[dataset.labelled_L]
    bank = build_bank(labelled_LF, labels_L, classes)
    linear = fit_linear(labelled_LF, labels_L, classes=classes, seed=desk.config.seed)
    known = {id(exam): desk.features(encoder, exam.images, f"{name}: features")}

    def features(of: Exam) -> Tensor:
        if id(of) not in known:
            known[id(of)] = desk.features(encoder, of.images)
        return known[id(of)]

    ways: list[tuple[str, Answer]] = [
        ("linear", lambda of: linear.logits(features(of)).argmax(1)),
        ("k-NN", lambda of: bank.ask(features(of)).labels_N),
    ]
    return [examined(name, way, answer, exam, validation, seconds) for way, answer in ways]


def _trust(desk: Desk, encoder: nn.Module) -> list[ShareTrust]:
    """Precision of votes by their share: on held-out labels, or leaving out one label at a time."""
    dataset, index_L = desk.dataset, desk.dataset.labelled_L
    bank = build_bank(
        desk.features(encoder, dataset.images[index_L]), dataset.labels_M[index_L], len(dataset.classes)
    )
    if dataset.held_out_M is not None and len(dataset.validation_V):
        answer = bank.ask(desk.features(encoder, dataset.images[dataset.validation_V]))
        return precision_by_share(answer, dataset.held_out_M[dataset.validation_V])
    if not bank.asked_L.any():
        return []
    return precision_by_share(bank.leave_one_out(), bank.labels_L.where(bank.asked_L, UNLABELLED))
