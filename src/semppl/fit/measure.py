"""The trained encoder beside its baselines, all in one exam.

Shapes: N images of the exam, L labelled images for training, F features.
"""

import time
from dataclasses import dataclass

from torch import Tensor, nn

from semppl.core.labels import UNLABELLED
from semppl.data.dataset import evenly
from semppl.deploy.predict import share_of
from semppl.evaluate.bank import ShareTrust, build_bank, precision_by_share
from semppl.evaluate.calibration import Calibration, calibrate
from semppl.evaluate.exam import MOST, Exam, final_exam, truth_of, validation_exam
from semppl.evaluate.finetune import FineTuned
from semppl.evaluate.metrics import confusion_matrix
from semppl.evaluate.teaching import Classified
from semppl.fit.consistency import Course, allowance, taught
from semppl.fit.settings import FitSettings
from semppl.fit.supervised import supervised
from semppl.fit.tuning import Tuned, answers, fine_tuned
from semppl.fit.verdict import ON_ALL, OURS, START, Answer, Row, chosen, examined
from semppl.nets.heads import Projected
from semppl.protocols.desk import Desk
from semppl.protocols.supervised import fresh


@dataclass(frozen=True)
class Measured:
    """What the stages after this one need."""

    rows: list[Row]
    exam: Exam
    tuned: Tuned | None
    """By the labels, where it was done."""
    course: Course | None
    """Of that on all images, where it was done."""
    decides: str
    """The way that the model takes."""
    trust: list[ShareTrust]
    """How often that way is right by the share of the votes, on labels that did not vote."""
    calibration: Calibration | None = None
    """Of that way's probabilities, on held-out labels; None without any, and for votes."""
    strength: float | None = None
    """Inverse penalty of the model where the linear way decides: logits of another would want another
    calibration."""
    confusion: list[list[int]] | None = None
    """Images of the exam by truth (rows) and by what that way answers; None without an exam."""


def measure(
    desk: Desk, online: Projected, seconds: float, settings: FitSettings, until: float | None = None
) -> Measured:
    """All rows of the table.

    `seconds` is what pre-training took: the supervised baseline gets as much. `until` is when all training
    should be done, by the monotonic clock; None leaves it to `seconds`.
    """
    exam, validation = final_exam(desk.dataset), validation_exam(desk.dataset)
    if exam is None:
        exam = _own_labels(desk)
    rows, said = _frozen(desk, OURS, online.encoder, exam, validation, seconds)
    tuned, course, models = None, None, dict[str, FineTuned | Classified]()
    if settings.finetune:
        tuned, row = fine_tuned(desk, online, exam, validation, seconds)
        models["fine-tuned"] = tuned.model
        rows.append(row)
    others = []
    if settings.baselines:
        others = _frozen(desk, START, fresh(desk, pretrained=True), exam, validation, None)[0]
        others.append(supervised(desk, exam, validation, seconds))
    if settings.consistency:  # the last, for it takes what is left
        allowed = allowance(seconds, None if until is None else until - time.monotonic())
        if made := taught(desk, online.encoder, exam, validation, seconds, allowed):
            course, row, models[ON_ALL] = made
            rows.append(row)
    rows += others
    decides = chosen(rows).way
    model = models.get(decides)
    if model is not None:
        said[decides] = answers(desk, model, exam)
    confusion = _confusion(exam, said.get(decides), len(desk.dataset.classes))
    strength = _strength(desk, online) if decides == "linear" else None
    trust, calibration = _trust(desk, online, model, strength)
    return Measured(rows, exam, tuned, course, decides, trust, calibration, strength, confusion)


def _confusion(exam: Exam, answer_N: Tensor | None, classes: int) -> list[list[int]] | None:
    """Labels of training itself are no exam."""
    if answer_N is None or exam.kind == "training":
        return None
    return confusion_matrix(answer_N.cpu(), truth_of(exam, classes), classes).tolist()


def _own_labels(desk: Desk) -> Exam:
    """Nothing is held out: the labels themselves, which flatters everybody, and is said so."""
    index_L = desk.dataset.labelled_L
    truth_L = desk.dataset.labels_M[index_L]
    desk.say(
        "no label is left to measure on: the figures below are on the very labels of training and mean "
        "little; give --test, or three labels or more for each class"
    )
    return Exam("training", desk.dataset.images[index_L], lambda answer_L: answer_L.cpu() == truth_L)


def _frozen(
    desk: Desk,
    name: str,
    encoder: nn.Module,
    exam: Exam,
    validation: Exam | None,
    seconds: float | None,
) -> tuple[list[Row], dict[str, Tensor]]:
    """k-NN and linear on features that stay as they are, and what each answers in the exam."""
    dataset, classes = desk.dataset, len(desk.dataset.classes)
    labelled_LF = desk.features(encoder, dataset.images[dataset.labelled_L])
    labels_L = dataset.labels_M[dataset.labelled_L]
    bank = build_bank(labelled_LF, labels_L, classes)
    linear = desk.linear(labelled_LF, labels_L)
    known = {id(exam): desk.features(encoder, exam.images, f"{name}: features")}

    def features(of: Exam) -> Tensor:
        if id(of) not in known:
            known[id(of)] = desk.features(encoder, of.images)
        return known[id(of)]

    ways: list[tuple[str, Answer]] = [
        ("linear", lambda of: linear.logits(features(of)).argmax(1)),
        ("k-NN", lambda of: bank.ask(features(of)).labels_N),
    ]
    rows = [examined(name, way, answer, exam, validation, seconds) for way, answer in ways]
    return rows, {way: answer(exam) for way, answer in ways}


def _strength(desk: Desk, online: Projected) -> float:
    """The inverse penalty that all given labels choose."""
    features_LF = desk.features(online.encoder, desk.dataset.images[desk.given_L])
    return desk.linear(features_LF, desk.given_M[desk.given_L]).strength


def _trust(
    desk: Desk, online: Projected, mine: FineTuned | Classified | None, strength: float | None
) -> tuple[list[ShareTrust], Calibration | None]:
    """Precision of the labels by the share of votes that they have, as predictions.csv states it, and what
    makes probabilities as large as they should be.

    On held-out labels; without any, of the votes alone, leaving out one label at a time. `mine` is the
    network of the way that decides if it has one of its own, and `strength` that of the linear way if it
    does; else votes decide.
    """
    dataset, index_L = desk.dataset, desk.dataset.labelled_L
    labels_L, classes = dataset.labels_M[index_L], len(dataset.classes)
    encoder = online.encoder if mine is None else mine.encoder
    features_LF = desk.features(encoder, dataset.images[index_L])
    bank, validation = build_bank(features_LF, labels_L, classes), validation_exam(dataset)
    if validation is None or dataset.held_out_M is None:
        if not bank.asked_L.any():
            return [], None
        return precision_by_share(bank.leave_one_out(), bank.labels_L.where(bank.asked_L, UNLABELLED)), None
    features_VF = desk.features(encoder, validation.images)
    answer, truth_V = bank.ask(features_VF), dataset.held_out_M[evenly(dataset.validation_V, MOST)]
    if mine is not None:
        logits_VY = desk.logits(mine, validation.images)
    elif strength is not None:
        logits_VY = desk.linear(features_LF, labels_L, strength=strength).logits(features_VF)
    else:
        return precision_by_share(answer, truth_V), None
    said_V = logits_VY.argmax(1).to(answer.labels_N.device)
    stated = answer._replace(labels_N=said_V, share_N=share_of(said_V, answer, bank.labels_L))
    return precision_by_share(stated, truth_V), calibrate(logits_VY, truth_V)
