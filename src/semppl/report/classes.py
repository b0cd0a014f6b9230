"""Answers class by class: accuracies, and which classes are taken for which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semppl.report.lenient import counts

Matrix = tuple[tuple[int, ...], ...]
"""Rows are the truth, columns the answers."""


@dataclass(frozen=True)
class ClassLine:
    """One class."""

    name: str
    labels: int
    """Given by the user."""
    images: int
    """In the exam."""
    accuracy: float | None
    """Share that was answered rightly; None where the exam has no such image."""
    answered: int
    """Images of the exam that were given this class."""


@dataclass(frozen=True)
class Confused:
    """Images of one class that were taken for another."""

    truth: int
    answer: int
    images: int
    share: float
    """Of the images of that class."""


def matrix(raw: object) -> Matrix | None:
    """A square matrix of counts, if it is one."""
    if not isinstance(raw, list) or not raw:
        return None
    rows = [counts(row) for row in raw]
    if any(row is None or len(row) != len(rows) for row in rows):
        return None
    return tuple(tuple(row) for row in rows if row is not None)


def summed(metrics: object) -> Matrix | None:
    """The confusions of one classifier, or those of several seeds added up."""
    found = [matrix(each.get("confusion")) for each in _list(metrics) if isinstance(each, Mapping)]
    known = [each for each in found if each is not None]
    if not known or len({len(each) for each in known}) > 1:
        return None
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*known, strict=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def class_lines(confusion: Matrix, classes: Sequence[str], labels: Mapping[str, int]) -> list[ClassLine]:
    """One for each class; classes without a name are called by their number."""
    answered = [sum(column) for column in zip(*confusion, strict=True)]
    lines = []
    for i, row in enumerate(confusion):
        name = classes[i] if i < len(classes) else str(i)
        images = sum(row)
        accuracy = row[i] / images if images else None
        lines.append(ClassLine(name, labels.get(name, 0), images, accuracy, answered[i]))
    return lines


def most_confused(confusion: Matrix, most: int = 20) -> list[Confused]:
    """The pairs with the most images, of equals those with the larger share."""
    pairs = [
        Confused(i, j, count, count / sum(row))
        for i, row in enumerate(confusion)
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(pairs, key=lambda pair: (-pair.images, -pair.share, pair.truth, pair.answer))[:most]


def drawn_classes(confusion: Matrix, most: int = 60) -> list[int]:
    """Which classes a picture shows: all, or those in the most confusions, in their order."""
    if len(confusion) <= most:
        return list(range(len(confusion)))
    wrong = [sum(row) + sum(column) - 2 * row[i] for i, (row, column) in enumerate(_both(confusion))]
    return sorted(sorted(range(len(wrong)), key=lambda i: -wrong[i])[:most])


def _both(confusion: Matrix) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return list(zip(confusion, zip(*confusion, strict=True), strict=True))
