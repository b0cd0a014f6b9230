"""What semantic positives, pseudo-labels and true labels change: differences of the rows of a section."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Final

from semppl.core.counted import counted
from semppl.core.paired import Difference, difference, unpaired
from semppl.report.seeds import distinguishing
from semppl.report.table.measure import Seeds
from semppl.report.table.method import OF_LABELS
from semppl.report.table.row import Row, known
from semppl.report.table.sections import Section

# a kind of row minus another one of the same objective and epochs
_PAIRS: Final = (("semantic", "base"), ("semantic", "given"), ("oracle", "semantic"))
# seeds that belong together: trained and given labels alike, or else only given the same labels
_PAIRINGS: Final[tuple[tuple[str, Callable[[Seeds], object]], ...]] = (
    ("paired seed", lambda seeds: seeds if known(seeds) else None),
    ("paired split", lambda seeds: seeds[1]),
)
Told = tuple[str, str, str]
"""(difference, column, over what)."""
Compared = tuple[Row, Row, set[str]]
"""One row, the other that is taken from it, and in which columns."""


def difference_lines(section: Section) -> list[str]:
    """A line for each pair of rows that have a column in common."""
    lines = []
    for ours, reference, columns in [*_compared(section), *_switched(section)]:
        told = [
            (str(found[0]), column, found[1])
            for column in section.columns
            if column in columns
            if (found := paired(ours.values(column), reference.values(column))) is not None
        ]
        if told:
            names = f"{_quoted(section.called(ours))} − {_quoted(section.called(reference))}"
            besides = "" if ours.method == reference.method else _besides(ours, reference)
            lines.append(f"{names}: {_said(told)}{besides}")
    return lines


def _besides(ours: Row, reference: Row) -> str:
    """What else is not the same, for the difference may be due to it."""
    names = [name for name in _differing(ours, reference) if name not in OF_LABELS]
    return f" (they also differ in {', '.join(names)})" if names else ""


def _differing(one: Row, other: Row) -> list[str]:
    return distinguishing([one.settings, other.settings])


def _compared(section: Section) -> Iterator[Compared]:
    """Rows of two kinds, of the same objective and epochs. A row with a switch is compared where it is nearer
    to the other one than the usual row is, or where that has no number.
    """
    for kinds, one, other in product(_PAIRS, section.rows, section.rows):
        alike = one.method.objective == other.method.objective and one.epochs == other.epochs
        if alike and (one.method.kind, other.method.kind) == kinds:
            usual = [(row, other) for row in section.rows if row.is_usual_for(one)]
            usual += [(one, row) for row in section.rows if row.is_usual_for(other)]
            count = len(_differing(one, other))
            told = [a.columns & b.columns for a, b in usual if len(_differing(a, b)) <= count]
            yield one, other, (one.columns & other.columns).difference(*told)


def _switched(section: Section) -> Iterator[Compared]:
    """Rows that say how they differ from the usual one, and that one."""
    for usual, row in product(section.rows, section.rows):
        if usual.is_usual_for(row):
            yield row, usual, row.columns & usual.columns


def paired(ours: Mapping[Seeds, float], reference: Mapping[Seeds, float]) -> tuple[Difference, str] | None:
    """In the way that has the most pairs, with a word on how; None where one side has nothing."""
    found = [(word, _pairs(ours, reference, key)) for word, key in _PAIRINGS]
    word, pairs = max(found, key=lambda each: len(each[1]))  # of equals the first
    both = difference([one for one, _ in pairs], [other for _, other in pairs])
    if both is not None:
        return both, counted(len(pairs), word)
    means = unpaired(list(ours.values()), list(reference.values()))
    return None if means is None else (means, "seeds that are not paired")


def _pairs(
    ours: Mapping[Seeds, float], reference: Mapping[Seeds, float], key: Callable[[Seeds], object]
) -> list[tuple[float, float]]:
    first, other = _by(ours, key), _by(reference, key)
    return [(first[each], other[each]) for each in first if each is not None and each in other]


def _by(values: Mapping[Seeds, float], key: Callable[[Seeds], object]) -> dict[object, float]:
    """Means of what belongs together."""
    found: dict[object, list[float]] = {}
    for seeds, value in values.items():
        found.setdefault(key(seeds), []).append(value)
    return {each: sum(same) / len(same) for each, same in found.items()}


def _said(told: list[Told]) -> str:
    """How they were compared is said once where it is the same everywhere."""
    if len({over for _, _, over in told}) == 1:
        return f"{', '.join(f'{found} ({column})' for found, column, _ in told)}; over {told[0][2]}"
    return ", ".join(f"{found} ({column}, over {over})" for found, column, over in told)


def _quoted(name: str) -> str:
    return f"“{name}”" if "," in name or "−" in name else name
