"""What the evaluations of a run give to a table: numbers, each with its labels, seeds and column."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from semppl.core.rundir import RunDirectory
from semppl.report.collect import Run, unfinished
from semppl.report.findings import Evaluation
from semppl.report.gaps import Damaged
from semppl.report.lenient import finite, read_text
from semppl.report.table.columns import SUPERVISED, column_of, protocol_of
from semppl.report.table.method import all_values
from semppl.report.table.record import kept_roles

TOP1: Final = "top-1"
Seeds = tuple[int | None, int | None]
"""(of training, of the choice of labels)."""


@dataclass(frozen=True)
class Measurement:
    """One number."""

    run: Run
    evaluation: Evaluation
    protocol: str
    column: str
    data: tuple[str, str]
    """Name and sha256; an unknown one is empty."""
    labels: int
    """That the classifier got."""
    seeds: Seeds
    value: float
    seconds: float | None

    @property
    def split_sha256(self) -> str:
        """Of the table that says which images have a label; empty where nobody knows."""
        content, own = self.evaluation.content, ""
        with suppress(Damaged):
            own = (read_text(self.run.path / "split.sha256").split() or [""])[0]
        return str(_mapping(content, "labels").get("split_sha256") or content.get("split_sha256") or own)

    @property
    def device(self) -> str:
        """Its name."""
        there = _mapping(self.evaluation.content, "environment").get("device")
        first, other = self.run.environment.get("device"), there
        if self.protocol == SUPERVISED:
            first, other = other, first
        return str(first or other or "")


def measured(run: Run) -> tuple[list[Measurement], list[str]]:
    """All numbers that a table can show, and in words what it cannot."""
    found: list[Measurement] = []
    problems, strange = [], []
    for each in run.evaluations:
        protocol = protocol_of(each.name, flags_of(each))
        value = next((number.value for number in each.numbers if number.name == TOP1), None)
        if protocol is None or value is None:
            strange.append(each.name)
        elif protocol != SUPERVISED and (other := _other_weights(run, each)) is not None:
            problems.append(f"evaluations/{each.name}.json is {other}")
        elif (labels := _labels(run, each)) is None:
            problems.append(f"evaluations/{each.name}.json does not say how many labels it had")
        else:
            found += _of(run, each, protocol, labels, value)
    if strange:
        problems.append(f"no column is for {', '.join(f'evaluations/{name}.json' for name in strange)}")
    return found, [f"{problem}: left out" for problem in problems]


def flags_of(evaluation: Evaluation) -> Mapping[str, Any]:
    """Those of `evaluate`; nothing in files of early versions."""
    return _mapping(evaluation.content, "flags")


def _of(run: Run, each: Evaluation, protocol: str, labels: int, value: float) -> list[Measurement]:
    """One; of a network that was trained on the labels alone one for each of its seeds."""
    flags, content = flags_of(each), each.content
    column, seconds = column_of(protocol, flags), finite(content.get("seconds"))
    source = PurePath(str(run.config.get("source") or "")).name
    sha256 = content.get("data_sha256") or run.environment.get("data_sha256") or ""
    data = (str(content.get("data") or source), str(sha256))
    own = all_values(run.config)
    split = next(
        (
            int(seed)
            for seed in map(finite, (flags.get("split_seed"), own["data.split_seed"]))
            if seed is not None
        ),
        run.seed,
    )
    values: list[tuple[int | None, float]] = [(run.seed, value)]
    if protocol == SUPERVISED:
        first = finite(flags.get("seed"))
        values = [*_by_seed(each)] or [(0 if first is None else int(first), value)]
    share = None if seconds is None else seconds / len(values)
    return [
        Measurement(run, each, protocol, column, data, labels, (seed, split), number, share)
        for seed, number in values
    ]


def _by_seed(each: Evaluation) -> list[tuple[int, float]]:
    """In per cent; empty where the file does not have them one by one."""
    seeds, metrics = each.settings.get("seeds"), _mapping(each.content, "details").get("metrics")
    if not isinstance(seeds, list) or not isinstance(metrics, list) or len(seeds) != len(metrics):
        return []
    top1 = [finite(one.get("top1")) if isinstance(one, Mapping) else None for one in metrics]
    return [
        (seed, 100 * share)
        for seed, share in zip(seeds, top1, strict=True)
        if isinstance(seed, int) and share is not None
    ]


def _labels(run: Run, each: Evaluation) -> int | None:
    """That its classifier got: as the file says, or else as the configuration does."""
    said, flags = _mapping(each.content, "labels"), flags_of(each)
    for key in ("count", "used"):
        if (count := finite(said.get(key))) is not None:
            return int(count)
    if flags.get("labels") == "all":
        return None
    if flags.get("labels_per_class") is not None or flags.get("label_fraction") is not None:
        return _per_class(flags.get("labels_per_class"), each)
    return _given(run, each)


def training_labels(of: Measurement) -> int | None:
    """Of the run's own training; those that it held out for validation count where the classifier got them,
    too, and do not where they were its exam.
    """
    given = _given(of.run, of.evaluation)
    return given if given == of.labels else _roles(of.run).get("labelled") or given


def _given(run: Run, each: Evaluation) -> int | None:
    """As the run's split says, for a class may have had fewer than were asked for; or else as was asked."""
    roles = _roles(run)
    given = roles.get("labelled", 0) + roles.get("validation", 0)
    return given or _per_class(all_values(run.config)["data.labels_per_class"], each)


def _roles(run: Run) -> Mapping[str, int]:
    return run.roles or kept_roles(run.path)


def _per_class(count: object, each: Evaluation) -> int | None:
    number = finite(count)
    return int(number) * len(each.classes) if number and each.classes else None


def _other_weights(run: Run, each: Evaluation) -> str | None:
    """Than those at the end of the run's training, in words."""
    checkpoint = flags_of(each).get("checkpoint")
    if isinstance(checkpoint, str) and not _own_checkpoint(run, Path(checkpoint)):
        return f"of a checkpoint that is not the run's ({checkpoint})"
    if run.metrics and unfinished(run.metrics, run.config) is not None:
        return "of a training that is not finished"
    return _older(run, each)


def _own_checkpoint(run: Run, file: Path) -> bool:
    """By the names of its folders where the run has come from elsewhere since."""
    own = RunDirectory(run.path).checkpoints.resolve()
    folder = file.parent
    return folder.resolve() == own or (folder.name == own.name and folder.parent.name in ("", run.name))


def _older(run: Run, each: Evaluation) -> str | None:
    """Of a step before the last one, in words."""
    step, last = (
        finite(each.content.get("step")),
        finite(run.metrics[-1].get("step")) if run.metrics else None,
    )
    return (
        f"of step {step:.0f} of {last:.0f}" if step is not None and last is not None and step < last else None
    )


def _mapping(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    return value if isinstance(value, Mapping) else {}
