"""A run directory as plain values: whatever is there, and a list of what is not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.lock import in_use
from semppl.core.rundir import RunDirectory
from semppl.report import gaps
from semppl.report.curves import Metrics, epoch_of
from semppl.report.exhibit import ADVICE, EXHIBIT, Advice, Exhibit, read_advice, read_exhibit
from semppl.report.findings import JOURNEY, Evaluation, Journey, read_evaluation
from semppl.report.gaps import Damaged, Gap
from semppl.report.lenient import finite, read_json, read_metrics, read_table, read_yaml, strings
from semppl.report.text import plain

NO_CLASSES: Final = "no accuracies of single classes yet"
NEXT: Final = ("path", "voted", "vote_share", "cosine", "reason")
SUSPICIOUS: Final = ("path", "label", "voted", "vote_share")
Table = list[tuple[str, ...]]


@dataclass(frozen=True)
class Run:
    """All that a page needs of a run."""

    path: Path
    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    metrics: Metrics
    evaluations: Sequence[Evaluation]
    journey: Journey | None
    classes: Sequence[str]
    labels: Mapping[str, int]
    """Given by the user, for each class."""
    roles: Mapping[str, int]
    """Images of each role."""
    exhibit: Exhibit | None
    advice: Advice | None
    label_next: Table | None
    suspicious: Table | None
    predicted: Mapping[str, int]
    """Images without a label that were given each class."""
    bad_files: Table
    gaps: Sequence[Gap]

    @property
    def seed(self) -> int | None:
        """Of pre-training."""
        seed = finite(self.config.get("seed"))
        return None if seed is None else int(seed)

    @property
    def folder(self) -> Path:
        """Of what it left to look at."""
        return self.path / "exhibit"


def collect(path: Path) -> Run:
    """Read everything once; only a folder without a run is refused."""
    run = RunDirectory(path)
    if not run.exists:
        raise UserError(
            f"{plain(str(path))} holds no run (no {run.config.name}): give a folder that fit or pretrain made"
        )
    config, no_config = _config(run)
    journey_asked = (path / "fit.yaml").is_file()
    metrics, no_metrics = _metrics(run, config, journey=journey_asked)
    evaluations, journey, no_evaluations = _evaluations(run, journey=journey_asked)
    exhibit, no_exhibit = _exhibit(run, journey=journey_asked)
    advice, label_next, suspicious, no_advice = _advice(run, config, journey=journey_asked)
    split, no_split = _optional(run.split, ("label", "role"))
    predictions, no_predictions = _optional(path / "predictions.csv", ("label",))
    bad_files, no_bad_files = _optional(run.bad_files, ("path", "reason"))
    environment, no_environment = _environment(run)
    return Run(
        path=path,
        name=path.resolve().name or str(path),
        config=config,
        environment=environment,
        metrics=metrics,
        evaluations=evaluations,
        journey=journey,
        classes=_classes(run, exhibit, evaluations),
        labels=Counter(label for label, role in split or () if label and role != "test"),
        roles=Counter(role for _, role in split or ()),
        exhibit=exhibit,
        advice=advice,
        label_next=label_next,
        suspicious=suspicious,
        predicted=Counter(label for (label,) in predictions or ()),
        bad_files=bad_files or [],
        gaps=(
            *(*no_config, *no_metrics, *no_evaluations, *no_exhibit, *no_advice),
            *(*no_split, *no_predictions, *no_bad_files, *no_environment),
        ),
    )


def _config(run: RunDirectory) -> tuple[dict[str, Any], list[Gap]]:
    try:
        return read_yaml(run.config), []
    except Damaged as error:
        return {}, [Gap(f"{error}: what the run was asked to do is not known")]


def _metrics(run: RunDirectory, config: Mapping[str, Any], *, journey: bool) -> tuple[Metrics, list[Gap]]:
    again = gaps.resume(run.path, journey=journey)
    if not run.metrics.is_file():
        return [], [Gap("no training yet (no metrics.jsonl)", again)]
    try:
        rows, lost = read_metrics(run.metrics)
    except Damaged as error:
        return [], [Gap(str(error))]
    missing = []
    if lost:
        missing.append(Gap(f"{counted(lost, 'line')} of metrics.jsonl cut off or damaged: passed over"))
    if not rows:
        missing.append(Gap("no training yet (metrics.jsonl holds no line)", again))
    elif (asked := unfinished(rows, config)) is not None:
        missing.append(_so_far(run, f"epoch {epoch_of(rows[-1]):.1f} of {asked:g}", again))
    return rows, missing


def _so_far(run: RunDirectory, where: str, again: str) -> Gap:
    if in_use(run.path):
        return Gap(f"training is going on, at {where}: make the page again later")
    return Gap(f"training stopped at {where}", again)


def unfinished(rows: Metrics, config: Mapping[str, Any]) -> float | None:
    """The epochs that were asked for, where the last line is more than a step and a half before them."""
    asked, done = finite(config.get("epochs")), finite(rows[-1].get("epoch"))
    step = finite(rows[-1].get("step"))
    if asked is None or done is None or not step:
        return None
    return asked if done + 1.5 * done / step < asked else None


def _evaluations(run: RunDirectory, *, journey: bool) -> tuple[list[Evaluation], Journey | None, list[Gap]]:
    found, told, missing = [], None, []
    for file in sorted(run.evaluations.glob("*.json")):
        try:
            evaluation, more = read_evaluation(file)
            found.append(evaluation)
            told = more or told
        except Damaged as error:
            protocol = file.stem.split("-")[0]
            again = (
                gaps.resume(run.path, journey=True)
                if file.stem == JOURNEY
                else gaps.evaluate(run.path, protocol, again=True)
            )
            missing.append(Gap(str(error), again))
    if not any(each.numbers for each in found):
        command = gaps.resume(run.path, journey=True) if journey else gaps.evaluate(run.path)
        missing.append(Gap("no evaluation yet", command))
    elif not any(each.confusion for each in found):
        missing.append(Gap(NO_CLASSES, gaps.evaluate(run.path)))
    return found, told, missing


def _exhibit(run: RunDirectory, *, journey: bool) -> tuple[Exhibit | None, list[Gap]]:
    again = gaps.resume(run.path, journey=journey)
    if not (run.path / "exhibit" / EXHIBIT).is_file():
        return None, [
            Gap("no exhibit: no gallery of semantic positives and no map of the images", again, pictures=True)
        ]
    try:
        return read_exhibit(run.path / "exhibit"), []
    except Damaged as error:
        return None, [Gap(f"exhibit/{error}: no gallery and no map", again, pictures=True)]


def _advice(
    run: RunDirectory, config: Mapping[str, Any], *, journey: bool
) -> tuple[Advice | None, Table | None, Table | None, list[Gap]]:
    command = gaps.fit(run.path, config, journey=journey)
    label_next, no_next = _optional(run.path / "label_next.csv", NEXT)
    suspicious, no_suspicious = _optional(run.path / "suspicious_labels.csv", SUSPICIOUS)
    missing = [*no_next, *no_suspicious]
    if label_next is None and suspicious is None:
        missing.append(
            Gap("no advice on labels: which to give next, which to look at again", command, pictures=True)
        )
        return None, None, None, missing
    if not (run.path / "exhibit" / ADVICE).is_file():
        missing.append(Gap("no thumbnails beside the advice on labels", command, pictures=True))
        return None, label_next, suspicious, missing
    try:
        return read_advice(run.path / "exhibit"), label_next, suspicious, missing
    except Damaged as error:
        return None, label_next, suspicious, [*missing, Gap(f"exhibit/{error}", command, pictures=True)]


def _optional(file: Path, columns: Sequence[str]) -> tuple[Table | None, list[Gap]]:
    """A table that need not be there."""
    if not file.is_file():
        return None, []
    try:
        return read_table(file, columns), []
    except Damaged as error:
        return None, [Gap(str(error))]


def _environment(run: RunDirectory) -> tuple[dict[str, Any], list[Gap]]:
    if not run.environment.is_file():
        return {}, [Gap("no environment.json: versions and machine are not known")]
    try:
        return read_json(run.environment), []
    except Damaged as error:
        return {}, [Gap(str(error))]


def _classes(run: RunDirectory, exhibit: Exhibit | None, evaluations: Sequence[Evaluation]) -> Sequence[str]:
    """Names, from wherever they are known."""
    if exhibit is not None and exhibit.classes:
        return exhibit.classes
    for evaluation in evaluations:
        if evaluation.classes:
            return evaluation.classes
    try:
        return strings(read_json(run.model / "config.json").get("classes"))
    except Damaged:
        return ()
