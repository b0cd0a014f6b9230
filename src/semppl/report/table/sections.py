"""Numbers as sections of rows: a section has one data set and number of labels, a row one configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from semppl.core.counted import counted
from semppl.report.lenient import finite
from semppl.report.table.columns import SUPERVISED, in_order, variant
from semppl.report.table.measure import Measurement, flags_of, training_labels
from semppl.report.table.method import SCRATCH, Method, method_of, settings_of
from semppl.report.table.method import SUPERVISED as ON_LABELS
from semppl.report.table.naming import told_apart
from semppl.report.table.row import Row, finite_epochs


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
    return tuple(told_apart(sorted(rows, key=lambda row: (row.method.order, finite_epochs(row)))))


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
    if of.protocol != SUPERVISED:
        return method_of(of.run.config)
    return SCRATCH if flags_of(of.evaluation).get("consistency") else ON_LABELS


def _settings(of: Measurement, method: Method) -> dict[str, str]:
    """Of a network that was trained from random weights the flags of its evaluation, too."""
    values = settings_of(of.run, method)
    if not method.pretrained:
        values["flags"] = " ".join(variant(SUPERVISED, flags_of(of.evaluation))) or "as usual"
    return values


def _epochs(of: Measurement) -> str:
    """Of pre-training, or of the training from random weights where its file says it."""
    if of.protocol == SUPERVISED:
        epochs = finite(of.evaluation.settings.get("epochs"))
    else:
        epochs = finite(of.run.config.get("epochs"))
    return "–" if epochs is None else f"{epochs:g}"
