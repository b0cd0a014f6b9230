"""Results of a run as its files have them: the journey of fit, and the protocols of evaluate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from semppl.protocols.compare import Results
from semppl.protocols.results import Number
from semppl.report.classes import Matrix, matrix, summed
from semppl.report.gaps import Damaged
from semppl.report.lenient import finite, read_json, strings

JOURNEY: Final = "fit"
# of several results the one that stands at the top of the page
_FIRST: Final = ("finetune", "linear", "linear-sgd", "knn")


@dataclass(frozen=True)
class Evaluation:
    """A file of evaluations/."""

    name: str
    protocol: str
    """In words."""
    numbers: tuple[Number, ...]
    settings: Mapping[str, Any]
    classes: tuple[str, ...]
    confusion: Matrix | None
    data: str | None
    """What it was measured on, as `compare` says it."""
    content: Mapping[str, Any] = field(default_factory=dict)
    """As the file has it."""


@dataclass(frozen=True)
class Row:
    """A line of the table of fit."""

    name: str
    way: str
    number: Number
    seconds: float | None
    decides: bool
    """Whether this way went into the model."""


@dataclass(frozen=True)
class Journey:
    """What fit adds to its numbers."""

    verdict: str
    rows: tuple[Row, ...]
    votes: tuple[tuple[float, float | None, float, int], ...]
    """(share of the votes at least, precision, coverage, labels)."""


def read_evaluation(file: Path) -> tuple[Evaluation, Journey | None]:
    """A result; that of fit has more to say."""
    content = read_json(file)
    try:
        journey = _journey(content) if file.stem == JOURNEY else None
        numbers = [_number(raw) for raw in content.get("numbers", ())]
        if journey is not None and not numbers:  # fit of an earlier version
            numbers = [row.number for row in journey.rows]
        details = content.get("details") or {}
        confusion = matrix(content.get("confusion")) or summed(details.get("metrics"))
        sha256 = content.get("data_sha256")
        return Evaluation(
            name=file.stem,
            protocol=str(content["protocol"]),
            numbers=tuple(numbers),
            settings=dict(content.get("settings") or {}),
            classes=strings(content.get("classes")),
            confusion=confusion,
            data=f"{content['data']} (sha256 {sha256[:12]}…)" if sha256 else None,
            content=content,
        ), journey
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"evaluations/{file.name} is no result of ours ({type(error).__name__})") from error


def results_of(evaluations: Sequence[Evaluation]) -> Results:
    """For `compare`."""
    numbers = {(each.name, number.name): number for each in evaluations for number in each.numbers}
    words = {each.name: each.protocol for each in evaluations if each.numbers}
    return Results(numbers, words, frozenset(each.data for each in evaluations if each.data is not None))


def headline(evaluations: Sequence[Evaluation], journey: Journey | None) -> tuple[str, Number] | None:
    """The number for the top of the page, and what it is: of fit's model, else of the best-known protocol."""
    if journey is not None:
        for row in journey.rows:
            if row.decides:
                return f"accuracy, {row.way}", row.number
    measured = [each for each in evaluations if each.numbers and each.name != JOURNEY]
    for first in _FIRST:
        for each in measured:
            if each.name == first:
                return f"{each.name}, {each.numbers[0].name}", each.numbers[0]
    return (
        (f"{measured[0].name}, {measured[0].numbers[0].name}", measured[0].numbers[0]) if measured else None
    )


def _journey(content: Mapping[str, Any]) -> Journey:
    rows = []
    for raw in content["rows"]:
        low, high = raw["interval_95"]
        number = _number(
            {"name": f"{raw['name']}, {raw['way']}", "value": raw["accuracy"], "low": low, "high": high}
        )
        decides = raw["name"] == "SemPPL" and raw["way"] == content.get("model_decides_by")
        rows.append(
            Row(str(raw["name"]), str(raw["way"]), number, finite(raw.get("training_seconds")), decides)
        )
    votes = [
        (float(raw["threshold"]), finite(raw["precision"]), float(raw["coverage"]), int(raw["count"]))
        for raw in content.get("votes") or ()
    ]
    return Journey(str(content["verdict"]), tuple(rows), tuple(votes))


def _number(raw: Mapping[str, Any]) -> Number:
    value = finite(raw["value"])
    if value is None:
        raise ValueError("not a number")
    low, high, deviation = (finite(raw.get(key)) for key in ("low", "high", "deviation"))
    return Number(str(raw["name"]), value, low, high, deviation)
