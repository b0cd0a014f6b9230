"""Several runs: which differ in the seed alone, their means, and the differences between such groups."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Final

from semppl.config import Config
from semppl.data.masks import NO_MASKS
from semppl.differing import FREE, flat
from semppl.report.collect import Run

Key = tuple[str, str]
"""(evaluation, number)."""

MACHINE: Final = (FREE - {"source", "data.labels", "data.test"}) | {"micro_batch", "data.feed"}
"""Where a run ran, and how often it spoke: no part of what it computed. Whose data it was does count."""
_SEED: Final = re.compile(r"[-_ .]*seed[-_ ]?\d+$", re.IGNORECASE)
_BY_TIME: Final = frozenset({"epochs", "optim.warmup_epochs"})
# of files that may lie elsewhere on another machine, the name alone
_FILES: Final = ("data.labels", "data.test")
# what a run from before there was a choice does not say
_BEFORE: Final = {"data.masks": NO_MASKS, "data.balance_labels": False, "method.minimum_votes": 0}
_USUAL: Final = {
    name: value for name, value in (flat(asdict(Config())) | _BEFORE).items() if value is not None
}


@dataclass(frozen=True)
class Group:
    """Runs of one configuration."""

    name: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Mean:
    """Over the seeds of a group that have the number."""

    value: float
    deviation: float | None
    """None for a single seed."""
    count: int

    def __str__(self) -> str:
        said = f"{self.value:.1f}"
        return said if self.deviation is None else f"{said} ± {self.deviation:.1f} ({self.count})"


@dataclass(frozen=True)
class Difference:
    """A group minus the first one, in one number."""

    key: Key
    group: str
    value: float
    deviation: float | None
    """Of the differences seed by seed; without common seeds that of two single, independent runs."""
    by_seed: Mapping[int, float]
    """Empty where no seed is common."""


def decisive(run: Run) -> dict[str, str]:
    """What decides on the numbers, but the seed: values as text, the data by what is in it."""
    said = {name: value for name, value in flat(run.config).items() if value is not None}
    values = {name: value for name, value in (_USUAL | said).items() if name not in MACHINE}
    seed = values.pop("seed", None)
    if (
        run.path / "fit.yaml"
    ).is_file():  # where minutes decide on the epochs, and seeds get a few more or less
        values = {name: value for name, value in values.items() if name not in _BY_TIME}
    if values.get("data.split_seed") in (None, seed):
        values.pop("data.split_seed", None)
    for name in _FILES:
        if values.get(name):
            values[name] = PurePath(str(values[name])).name
    if sha256 := run.environment.get("data_sha256"):
        values["source"] = f"{PurePath(str(values.get('source', ''))).name} ({str(sha256)[:8]})"
    if (sha256 := run.environment.get("masks_sha256")) and values["data.masks"] != NO_MASKS:
        values["data.masks"] = f"{PurePath(str(values['data.masks'])).name} ({str(sha256)[:8]})"
    return {name: str(value) for name, value in values.items()}


def grouped(runs: Sequence[Run]) -> list[Group]:
    """In the order of their first runs, named by what distinguishes them."""
    found: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(sorted(decisive(run).items())), []).append(run)
    settings = [dict(key) for key in found]
    names = _names(settings, list(found.values()))
    return [Group(name, tuple(members)) for name, members in zip(names, found.values(), strict=True)]


def distinguishing(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of the values that are not the same everywhere."""
    names = dict.fromkeys(name for each in settings for name in each)
    return [name for name in names if len({each.get(name) for each in settings}) > 1]


def _names(settings: Sequence[Mapping[str, str]], members: Sequence[Sequence[Run]]) -> list[str]:
    """The runs' own without their seeds, or the values that differ, or the first run of each where these are
    many.
    """
    if len(settings) == 1:
        return ["all runs"]
    stems = [{_SEED.sub("", run.name) for run in runs} for runs in members]
    if all(len(each) == 1 for each in stems) and len(set[str]().union(*stems)) == len(stems):
        return [stem for (stem,) in stems]
    differing = distinguishing(settings)
    if 0 < len(differing) <= 3:
        return [
            ", ".join(f"{name.rsplit('.', 1)[-1]} {each.get(name, 'none')}" for name in differing)
            for each in settings
        ]
    return [f"{runs[0].name} …" if len(runs) > 1 else runs[0].name for runs in members]


def values_of(run: Run) -> dict[Key, float]:
    """All numbers of a run."""
    return {(each.name, number.name): number.value for each in run.evaluations for number in each.numbers}


def means(groups: Sequence[Group]) -> dict[Key, list[Mean | None]]:
    """For each number, in the order of the files, one value for each group."""
    keys = dict.fromkeys(key for group in groups for run in group.runs for key in values_of(run))
    return {key: [_mean(list(_by_seed(group, key).values())) for group in groups] for key in keys}


def _mean(values: Sequence[float]) -> Mean | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Mean(statistics.fmean(values), deviation, len(values))


def group_differences(groups: Sequence[Group]) -> list[Difference]:
    """Of each later group against the first: seed by seed where both have a seed, else of the means."""
    found = []
    for key in means(groups):
        first = _by_seed(groups[0], key)
        for group in groups[1:]:
            other = _by_seed(group, key)
            if first and other:
                found.append(_difference(key, group.name, first, other))
    return found


def _by_seed(group: Group, key: Key) -> dict[int, float]:
    """Runs of one seed count once, with their mean; a run whose seed is not known has one of its own."""
    values: dict[int, list[float]] = {}
    for place, run in enumerate(group.runs):
        if (value := values_of(run).get(key)) is not None:
            values.setdefault(-1 - place if run.seed is None else run.seed, []).append(value)
    return {seed: statistics.fmean(each) for seed, each in values.items()}


def _difference(key: Key, name: str, first: Mapping[int, float], other: Mapping[int, float]) -> Difference:
    common = sorted(seed for seed in first.keys() & other.keys() if seed >= 0)
    if common:
        by_seed = {seed: other[seed] - first[seed] for seed in common}
        deviation = statistics.stdev(by_seed.values()) if len(by_seed) > 1 else None
        return Difference(key, name, statistics.fmean(by_seed.values()), deviation, by_seed)
    value = statistics.fmean(other.values()) - statistics.fmean(first.values())
    both = [list(first.values()), list(other.values())]
    if min(map(len, both)) < 2:
        return Difference(key, name, value, None, {})
    return Difference(key, name, value, sum(statistics.variance(each) for each in both) ** 0.5, {})
