"""How rows of one title are told apart: by the flags in which they differ from the usual one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from semppl.report.seeds import distinguishing
from semppl.report.table.method import INIT_FROM
from semppl.report.table.row import Row

# more flags than this are said only where a row differs from the one that is most like all others
_FEW: Final = 3
_BY_LENGTH: Final = frozenset({"optim.warmup_epochs", "method.target_decay"})


def told_apart(rows: Sequence[Row]) -> list[Row]:
    """Rows of one title say in which flags they differ; epochs have a column of their own. Where some began
    with other weights, all say with which.
    """
    begun = {row.settings[INIT_FROM] for row in rows if INIT_FROM in row.settings}
    return [
        _named(row, [each for each in rows if each.title == row.title], weights=len(begun) > 1)
        for row in rows
    ]


def _named(row: Row, same: Sequence[Row], *, weights: bool) -> Row:
    differing = distinguishing([each.settings for each in same])
    names = [name for name in differing if name != INIT_FROM and not _by_epochs(name, same)]
    usual = _usual(same, names)
    shown = names if usual is None else _unlike(row.settings, usual, names)
    begun = (f"{INIT_FROM} {row.settings[INIT_FROM]}",) if weights and INIT_FROM in row.settings else ()
    unsaid = () if usual is None else _words(usual, names, names)
    return replace(row, begun=begun, said=_words(row.settings, shown, names), unsaid=unsaid)


def _usual(same: Sequence[Row], names: Sequence[str]) -> Mapping[str, str] | None:
    """The settings that go without saying: of three rows and more those that more than half of the runs have
    together, whatever their epochs; else, of many flags, those of the row that is most like all others.
    """

    def unlike(row: Row) -> int:
        return sum(len(_unlike(row.settings, other.settings, names)) for other in same)

    def has_most_runs(row: Row) -> bool:
        alike = [not _unlike(row.settings, other.settings, names) for other in same for _ in other.runs]
        return 2 * sum(alike) > len(alike)

    common = [row for row in same if has_most_runs(row)] if len(same) > 2 else []
    if common or len(names) > _FEW:
        return (common or [min(same, key=unlike)])[0].settings
    return None


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


def _words(settings: Mapping[str, str], names: Sequence[str], among: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{_short(name, among)} {_brief(settings.get(name, 'none'))}" for name in names)


def _unlike(one: Mapping[str, str], other: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [name for name in names if one.get(name) != other.get(name)]


def _short(name: str, among: Sequence[str]) -> str:
    """Without its room where that is clear."""
    last = name.rsplit(".", 1)[-1]
    unique = sum(each.rsplit(".", 1)[-1] == last for each in among) == 1
    return (last if unique else name).replace("_", "-")
