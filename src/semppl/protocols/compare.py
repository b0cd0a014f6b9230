"""Results of several runs side by side, from their files alone. No torch here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semppl.core.counted import without_endings
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.results import Number


def compare(paths: Sequence[Path], console: Console) -> None:
    """A table with a line for each number and a column for each run, and a word where they differ in kind."""
    found = {path: read_results(path) for path in paths}
    # as the files have them, each protocol in one place
    keys = dict.fromkeys(key for results in found.values() for key in results.numbers)
    order = sorted({protocol for protocol, _ in keys})
    table = Table(title="Accuracy in per cent", title_justify="left")
    for column in ("protocol", "number"):
        table.add_column(column)
    for name in _titles(paths):
        table.add_column(name, justify="right", overflow="fold")
    for protocol, number in sorted(keys, key=lambda key: order.index(key[0])):
        cells = [found[path].numbers.get((protocol, number)) for path in paths]
        table.add_row(protocol, number, *("" if cell is None else str(cell) for cell in cells))
    console.print(table)
    for warning in differences(found):
        console.print(warning, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Results:
    """All results of a run."""

    numbers: Mapping[tuple[str, str], Number]
    """(protocol, number) → its value."""
    protocols: Mapping[str, str]
    """In words."""
    data: frozenset[str]
    """What they were measured on."""


def read_results(path: Path) -> Results:
    """From the files of a run; those of an earlier version that hold no numbers are passed over."""
    files = sorted(RunDirectory(path).evaluations.glob("*.json"))
    numbers: dict[tuple[str, str], Number] = {}
    words: dict[str, str] = {}
    data = set[str]()
    for file in files:
        try:
            content = json.loads(file.read_text())
            for raw in content.get("numbers", ()):
                number = Number(**raw)
                numbers[file.stem, number.name] = number
                words[file.stem] = content["protocol"]
            if "data_sha256" in content:
                data.add(f"{content['data']} (sha256 {content['data_sha256'][:12]}…)")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: not a result of ours ({type(error).__name__}): remove it") from error
    if not numbers:
        raise UserError(f"{path}: no results yet: run `semppl evaluate {RunDirectory(path).quoted}` first")
    return Results(numbers, words, frozenset(data))


def differences(found: Mapping[Path, Results]) -> list[str]:
    """What keeps numbers from being compared: other data, or another protocol."""
    lines = []
    known = {path: results.data for path, results in found.items() if results.data}
    if len(set(known.values())) > 1:
        lines.append("not the same data, so the numbers do not compare:")
        lines += [f"  {path.name}: {', '.join(sorted(data))}" for path, data in known.items()]
    names = sorted({name for results in found.values() for name in results.protocols})
    for name in names:
        said = {path: results.protocols[name] for path, results in found.items() if name in results.protocols}
        if len(set(map(without_endings, said.values()))) > 1:
            lines.append(f"{name}: not the same protocol, so its numbers do not compare:")
            lines += [f"  {path.name}: {words}" for path, words in said.items()]
    return lines


def _titles(paths: Sequence[Path]) -> list[str]:
    """Names of the runs, or whole paths where names repeat."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
