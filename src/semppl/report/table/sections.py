"""Numbers as sections of rows: a section has one data set and number of labels, a row one configuration."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semppl.core.counted import counted
from semppl.report.collect import Run
from semppl.report.lenient import finite
from semppl.report.seeds import distinguishing
from semppl.report.table.columns import SUPERVISED, in_order, variant
from semppl.report.table.measure import Measurement, Seeds, flags_of, training_labels
from semppl.report.table.method import INIT_FROM, Method, method_of, settings_of
from semppl.report.table.method import SUPERVISED as ON_LABELS

# more flags than this are said only where a row differs from the one that is most like all others
_FEW: Final = 3
_BY_LENGTH: Final = frozenset({"optim.warmup_epochs", "method.target_decay"})


@dataclass(frozen=True)
class Row:
    """Seeds of one configuration."""

    name: str
    method: Method
    epochs: str
    settings: Mapping[str, str]
    measurements: tuple[Measurement, ...]

    @property
    def runs(self) -> list[Run]:
        """Each once."""
        return list({each.run.path: each.run for each in self.measurements}.values())

    @property
    def seeds(self) -> list[Seeds]:
        """That any column has, in order."""
        return sorted({seeds for column in self.columns for seeds in self.values(column)}, key=str)

    @property
    def columns(self) -> set[str]:
        """That have a number."""
        return {each.column for each in self.measurements}

    def values(self, column: str) -> dict[Seeds, float]:
        """The same seeds measured twice count once, with their mean; an unknown seed is one of its run."""
        found: dict[Seeds, list[float]] = {}
        places = {run.path: place for place, run in enumerate(self.runs)}
        for each in self.measurements:
            if each.column == column:
                seed, split = each.seeds
                own = -1 - places[each.run.path] if seed is None else seed
                found.setdefault((own, split), []).append(each.value)
        return {seeds: statistics.fmean(values) for seeds, values in found.items()}


def known(seeds: Seeds) -> bool:
    """Whether two rows may have them in common: one that stands for a run without any is below zero."""
    return all(seed is not None and seed >= 0 for seed in seeds)


@dataclass(frozen=True)
class Section:
    """Rows that compare."""

    data: tuple[str, str]
    """Name and sha256."""
    labels: int
    rows: tuple[Row, ...]

    @property
    def names(self) -> list[str]:
        """Of files with these images, that of the data first."""
        found = (each.data[0] for row in self.rows for each in row.measurements)
        return list(dict.fromkeys([self.data[0], *found]))

    def called(self, row: Row) -> str:
        """A row's name, with its epochs where nothing else tells two rows apart."""
        alike = sum(each.name == row.name for each in self.rows) > 1
        return f"{row.name}, {counted(row.epochs, 'epoch')}" if alike else row.name

    @property
    def columns(self) -> list[str]:
        """That any row has."""
        return in_order(set[str]().union(*(row.columns for row in self.rows)))


def sections(measurements: Sequence[Measurement]) -> list[Section]:
    """Data sets in the order of the runs; in each the most labels first."""
    found: dict[tuple[tuple[str, str], int], list[Measurement]] = {}
    names = _data_names(measurements)
    for each in measurements:
        found.setdefault((names[each.data], each.labels), []).append(each)
    data = list(names.values())
    keys = sorted(found, key=lambda key: (data.index(key[0]), -key[1]))
    return [Section(*key, _rows(found[key])) for key in keys]


def _data_names(measurements: Sequence[Measurement]) -> dict[tuple[str, str], tuple[str, str]]:
    """The same images have one name, the first; without a sha256 they are those of that name."""
    first: dict[str, tuple[str, str]] = {}
    for name, sha256 in (each.data for each in measurements):
        first.setdefault(sha256 or name, (name, sha256))
    by_name: dict[str, set[tuple[str, str]]] = {}
    for name, sha256 in first.values():
        if sha256:
            by_name.setdefault(name, set()).add((name, sha256))
    found = {}
    for name, sha256 in dict.fromkeys(each.data for each in measurements):
        known = by_name.get(name, set())
        found[name, sha256] = (
            first[sha256] if sha256 else next(iter(known)) if len(known) == 1 else (name, "")
        )
    return found


def _rows(measurements: Sequence[Measurement]) -> tuple[Row, ...]:
    found: dict[tuple[tuple[str, str], ...], list[Measurement]] = {}
    for each in measurements:
        values = _settings(each, _method(each))
        found.setdefault((("", _method(each).name), *sorted(values.items())), []).append(each)
    rows = [_row(members) for members in found.values()]
    return tuple(_told_apart(sorted(rows, key=lambda row: (row.method.order, finite_epochs(row)))))


def _row(members: Sequence[Measurement]) -> Row:
    first = members[0]
    method = _method(first)
    trained = training_labels(first) if method.saw_labels else None
    other = f", trained with {trained:,} labels" if trained not in (None, first.labels) else ""
    values = {_epochs(each) for each in members}
    return Row(
        f"{method.name}{other}",
        method,
        values.pop() if len(values) == 1 else "–",
        _settings(first, method),
        tuple(members),
    )


def _method(of: Measurement) -> Method:
    return ON_LABELS if of.protocol == SUPERVISED else method_of(of.run.config)


def _settings(of: Measurement, method: Method) -> dict[str, str]:
    """Of a network that was trained on labels alone the flags of its evaluation, too."""
    values = settings_of(of.run, method)
    if method is ON_LABELS:
        values["flags"] = " ".join(variant(SUPERVISED, flags_of(of.evaluation))) or "as usual"
    return values


def _epochs(of: Measurement) -> str:
    """Of pre-training, or of the training on labels alone where its file says it."""
    if of.protocol == SUPERVISED:
        epochs = finite(of.evaluation.settings.get("epochs"))
    else:
        epochs = finite(of.run.config.get("epochs"))
    return "–" if epochs is None else f"{epochs:g}"


def finite_epochs(row: Row) -> float:
    """For an order; rows without any come first."""
    try:
        return float(row.epochs)
    except ValueError:
        return 0.0


def _told_apart(rows: Sequence[Row]) -> list[Row]:
    """Rows of one name say in which flags they differ; epochs have a column of their own. Where some began
    with other weights, all say with which.
    """
    begun = {row.settings[INIT_FROM] for row in rows if INIT_FROM in row.settings}
    return [
        _named(row, [each for each in rows if each.name == row.name], weights=len(begun) > 1) for row in rows
    ]


def _named(row: Row, same: Sequence[Row], *, weights: bool) -> Row:
    differing = distinguishing([each.settings for each in same])
    names = [name for name in differing if name != INIT_FROM and not _by_epochs(name, same)]
    shown = names
    if len(names) > _FEW:
        middle = min(same, key=lambda each: sum(len(_unlike(each, other, names)) for other in same))
        shown = _unlike(row, middle, names)
    said = [f"{_short(name, names)} {_brief(row.settings.get(name, 'none'))}" for name in shown]
    if weights and INIT_FROM in row.settings:
        said.insert(0, f"{INIT_FROM} {row.settings[INIT_FROM]}")
    return replace(row, name=", ".join([row.name, *said]))


def _by_epochs(name: str, same: Sequence[Row]) -> bool:
    """Whether the column of epochs says it: also of what is chosen by the length of a run, if it was."""
    if name not in _BY_LENGTH:
        return name == "epochs"
    lengths = {row.epochs for row in same}
    return len({(row.epochs, row.settings.get(name)) for row in same}) == len(lengths)


def _brief(value: str) -> str:
    """Of a long fraction four digits."""
    try:
        return f"{float(value):.4g}" if "." in value and len(value) > 6 else value
    except ValueError:
        return value


def _unlike(one: Row, other: Row, names: Sequence[str]) -> list[str]:
    return [name for name in names if one.settings.get(name) != other.settings.get(name)]


def _short(name: str, among: Sequence[str]) -> str:
    """Without its room where that is clear."""
    last = name.rsplit(".", 1)[-1]
    unique = sum(each.rsplit(".", 1)[-1] == last for each in among) == 1
    return (last if unique else name).replace("_", "-")
