"""A cell of a table: one run directory, finished once its evaluations are there. No torch here."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from semppl.config import Config
from semppl.core.elapsed import training_seconds
from semppl.core.rundir import RunDirectory
from semppl.core.trust import counts_at_the_end
from semppl.protocols.settings import EvaluateFlags
from semppl.report.gaps import Damaged
from semppl.report.lenient import finite, kept_mark, read_json
from semppl.report.versions import versions

PROTOCOLS: Final = ("knn", "linear")
LOG: Final = "log.txt"
# flags of an evaluation that are of the machine or of the occasion, not of what is measured
_FREE: Final = frozenset(
    ("protocol", "corrupt", "compare", "device", "precision", "workers", "cache", "overwrite", "debug")
)


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
    versions: str
    """Of what it was trained with, and the device."""


def evaluation_flags(config: Config) -> EvaluateFlags:
    """How all cells are measured, so that their numbers compare."""
    return EvaluateFlags(
        protocol=PROTOCOLS,
        device=config.device,
        precision=config.precision,
        workers=config.data.workers,
        overwrite=True,
    )


def score_of(cell: Cell) -> Score | None:
    """None until both evaluations of the last step are there, measured as those of all cells."""
    found = _evaluations(cell)
    if found is None:
        return None
    knn, linear = found
    rows, made_on = cell.run.read_metrics(), environment_of(cell.run)
    training = finite(kept_mark(cell.path).get("training_seconds"))  # a copy has some of the lines alone
    if training is None:
        training = training_seconds(rows, cell.config.images_per_step)
    return Score(
        linear=_top1(linear),
        knn=_top1(knn),
        pseudo=pseudo_accuracy(rows, cell.config.steps_of(1, cell.num_images)),
        minutes=(training + knn["seconds"] + linear["seconds"]) / 60,
        protocols={"linear": linear["protocol"], "k-NN": knn["protocol"]},
        versions=", ".join(filter(None, (versions(made_on), str(made_on.get("device") or "")))),
    )


def evaluation_seconds(cells: Iterable[Cell]) -> float | None:
    """Of a cell, on average over the finished ones; None where there is none."""
    seconds = [sum(each["seconds"] for each in found) for cell in cells if (found := _evaluations(cell))]
    return sum(seconds) / len(seconds) if seconds else None


def steps_done(cell: Cell) -> int:
    """As far as its metrics say."""
    rows = cell.run.read_metrics()
    return min(int(rows[-1]["step"]), cell.steps) if rows else 0


def pseudo_accuracy(rows: list[dict[str, Any]], epoch: int) -> float | None:
    """Right among the pseudo-labels of the last `epoch` steps whose truth is known."""
    right, known = counts_at_the_end(rows, epoch)
    return 100 * sum(right) / sum(known) if sum(known) else None


def environment_of(run: RunDirectory) -> dict[str, Any]:
    """Nothing where the run was killed at its very start."""
    with suppress(Damaged):
        return read_json(run.environment)
    return {}


def _evaluations(cell: Cell) -> list[dict[str, Any]] | None:
    """Of all protocols, in their order; None where one is missing."""
    found = [content for name in PROTOCOLS if (content := _evaluation(cell, name)) is not None]
    return found if len(found) == len(PROTOCOLS) else None


def _evaluation(cell: Cell, protocol: str) -> dict[str, Any] | None:
    """A result of the last step and of our settings; another one is somebody's own look at the run."""
    try:
        content: dict[str, Any] = json.loads((cell.run.evaluations / f"{protocol}.json").read_text())
        _top1(content)
        ours = content["step"] == cell.steps and "seconds" in content
        return content if ours and _as_ours(content["flags"], cell.config) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None


def _as_ours(flags: Mapping[str, Any], config: Config) -> bool:
    """A flag that an older version did not write had its default."""
    ours = json.loads(json.dumps(asdict(evaluation_flags(config))))  # tuples are lists in files
    return all(flags.get(name, value) == value for name, value in ours.items() if name not in _FREE)


def _top1(content: Mapping[str, Any]) -> float:
    return float(next(number["value"] for number in content["numbers"] if number["name"] == "top-1"))
