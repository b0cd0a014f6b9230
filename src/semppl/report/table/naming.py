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
    said = _words(row.settings, shown, names)
    if weights and INIT_FROM in row.settings:
        said.insert(0, f"{INIT_FROM} {row.settings[INIT_FROM]}")
    return replace(row, said=tuple(said), unsaid=tuple(_words(usual or {}, names if usual else (), names)))


def _usual(same: Sequence[Row], names: Sequence[str]) -> Mapping[str, str] | None:
    """The settings that go without saying: those of more than half of the runs, whatever their epochs; of
    many flags those of the row that is most like all others. Two rows both say what they have.
    """
    middle = min(same, key=lambda each: sum(len(_unlike(each.settings, o.settings, names)) for o in same))
    alike = [not _unlike(middle.settings, row.settings, names) for row in same for _ in row.runs]
    common = len(same) > 2 and 2 * sum(alike) > len(alike)
    return middle.settings if common or len(names) > _FEW else None


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


def _words(settings: Mapping[str, str], names: Sequence[str], among: Sequence[str]) -> list[str]:
    return [f"{_short(name, among)} {_brief(settings.get(name, 'none'))}" for name in names]


def _unlike(one: Mapping[str, str], other: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [name for name in names if one.get(name) != other.get(name)]


def _short(name: str, among: Sequence[str]) -> str:
    """Without its room where that is clear."""
    last = name.rsplit(".", 1)[-1]
    unique = sum(each.rsplit(".", 1)[-1] == last for each in among) == 1
    return (last if unique else name).replace("_", "-")
