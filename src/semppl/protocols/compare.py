"""Results of several runs side by side, from their files alone. No torch here."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.results import Number

Results = Mapping[tuple[str, str], Number]
"""(protocol, number) → its value."""


def compare(paths: Sequence[Path], console: Console) -> None:
    """A table with a line for each number and a column for each run, and a word where they differ in kind."""
    found = {path: read_results(path) for path in paths}
    # as the files have them, each protocol in one place
    keys = dict.fromkeys(key for results, _ in found.values() for key in results)
    order = sorted({protocol for protocol, _ in keys})
    table = Table(title="Accuracy in per cent", title_justify="left")
    for column in ("protocol", "number"):
        table.add_column(column)
    for name in _titles(paths):
        table.add_column(name, justify="right", overflow="fold")
    for protocol, number in sorted(keys, key=lambda key: order.index(key[0])):
        cells = [found[path][0].get((protocol, number)) for path in paths]
        table.add_row(protocol, number, *("" if cell is None else str(cell) for cell in cells))
    console.print(table)
    for warning in differences(found):
        console.print(warning, highlight=False, soft_wrap=True)


def read_results(path: Path) -> tuple[Results, Mapping[str, str]]:
    """All results of a run, and the words of each protocol."""
    run = RunDirectory(path)
    files = sorted(run.evaluations.glob("*.json"))
    if not files:
        raise UserError(f"{path}: no results yet: run `semppl evaluate {path}` first")
    results: dict[tuple[str, str], Number] = {}
    words: dict[str, str] = {}
    for file in files:
        try:
            content = json.loads(file.read_text())
            words[file.stem] = content["protocol"]
            for raw in content["numbers"]:
                number = Number(**raw)
                results[file.stem, number.name] = number
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file}: not a result of ours ({type(error).__name__}): remove it") from error
    return results, words


def differences(found: Mapping[Path, tuple[Results, Mapping[str, str]]]) -> list[str]:
    """Numbers under different protocols do not compare: name the first such pair of each protocol."""
    lines = []
    names = sorted({name for _, words in found.values() for name in words})
    for name in names:
        said = {path: words[name] for path, (_, words) in found.items() if name in words}
        if len(set(said.values())) > 1:
            lines.append(f"{name}: not the same protocol, so its numbers do not compare:")
            lines += [f"  {path.name}: {words}" for path, words in said.items()]
    return lines


def _titles(paths: Sequence[Path]) -> list[str]:
    """Names of the runs, or whole paths where names repeat."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
