"""A cell of a table: one run directory, finished once its evaluations are there. No torch here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from semppl.config import Config
from semppl.core.rundir import RunDirectory

PROTOCOLS: Final = ("knn", "linear")
LOG: Final = "log.txt"


@dataclass(frozen=True)
class Cell:
    """What is trained, and where."""

    name: str
    config: Config
    """Resolved."""
    path: Path
    num_images: int

    @property
    def run(self) -> RunDirectory:
        """Its folder."""
        return RunDirectory(self.path)

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.config.total_steps(self.num_images)


@dataclass(frozen=True)
class Score:
    """What a finished cell found, in per cent."""

    linear: float
    knn: float
    pseudo: float | None
    """Right pseudo-labels of the last epoch, where there are any and their truth is known."""
    minutes: float
    """Of training and evaluation."""
    protocols: Mapping[str, str]
    """In words."""


def score_of(cell: Cell) -> Score | None:
    """None until both evaluations of the last step are there."""
    found = {name: _evaluation(cell, name) for name in PROTOCOLS}
    knn, linear = found["knn"], found["linear"]
    if knn is None or linear is None:
        return None
    rows = cell.run.read_metrics()
    seconds = training_seconds(rows, cell.config.images_per_step) + knn["seconds"] + linear["seconds"]
    return Score(
        linear=_top1(linear),
        knn=_top1(knn),
        pseudo=pseudo_accuracy(rows, cell.config.steps_of(1, cell.num_images)),
        minutes=seconds / 60,
        protocols={"linear": linear["protocol"], "k-NN": knn["protocol"]},
    )


def steps_done(cell: Cell) -> int:
    """As far as its metrics say."""
    rows = cell.run.read_metrics()
    return min(int(rows[-1]["step"]), cell.steps) if rows else 0


def pseudo_accuracy(rows: list[dict[str, Any]], epoch: int) -> float | None:
    """Right among the pseudo-labels of the last `epoch` steps whose truth is known."""
    told = [row for row in rows if "pseudo/right_by_votes" in row]
    last = [row for row in told if row["step"] > told[-1]["step"] - epoch]
    known = sum(sum(row["pseudo/known_by_votes"]) for row in last)
    return 100 * sum(sum(row["pseudo/right_by_votes"]) for row in last) / known if known else None


def training_seconds(rows: list[dict[str, Any]], batch: int) -> float:
    """From the rates in the metrics, so that a cell which was interrupted knows it, too."""
    seconds, before = 0.0, 0
    for row in rows:
        if row.get("images_per_second"):
            seconds += (row["step"] - before) * batch / row["images_per_second"]
            before = row["step"]
    return seconds


def _evaluation(cell: Cell, protocol: str) -> dict[str, Any] | None:
    """A result of the last step; one of an earlier step is somebody's look at a run that was not done."""
    try:
        content: dict[str, Any] = json.loads((cell.run.evaluations / f"{protocol}.json").read_text())
        _top1(content)
        return content if content["step"] == cell.steps and "seconds" in content else None
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None


def _top1(content: Mapping[str, Any]) -> float:
    return float(next(number["value"] for number in content["numbers"] if number["name"] == "top-1"))
