"""The result of a protocol: headline numbers, everything behind them, and the file that keeps them. No torch.

Numbers are in per cent.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory, write_text


@dataclass(frozen=True)
class Number:
    """One line of the table."""

    name: str
    value: float
    low: float | None = None
    """Of the 95 % interval over images."""
    high: float | None = None
    deviation: float | None = None
    """Over seeds."""

    def __str__(self) -> str:
        said = f"{self.value:.1f}"
        if self.deviation is not None:
            said += f" ± {self.deviation:.1f}"
        if self.low is not None and self.high is not None:
            said += f" ({self.low:.1f} to {self.high:.1f})"
        return said


@dataclass(frozen=True)
class Outcome:
    """What a protocol found."""

    protocol: str
    """In words, for beside the numbers."""
    numbers: Sequence[Number]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Everything that was chosen, by whom, and from what."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Per class, per seed, per corruption …"""


def over_seeds(runs: Sequence[Sequence[Number]]) -> list[Number]:
    """Mean and deviation of the same numbers; of a single seed the numbers as they are, with intervals."""
    if len(runs) == 1:
        return list(runs[0])
    means = []
    for same in zip(*runs, strict=True):
        values = [number.value for number in same]
        means.append(Number(same[0].name, statistics.mean(values), deviation=statistics.stdev(values)))
    return means


def result_file(run: RunDirectory, protocol: str, name: str) -> Path:
    """Where a result lies."""
    return run.evaluations / (f"{protocol}-{name}.json" if name else f"{protocol}.json")


def require_free(files: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse to replace results, before anything is measured."""
    for file in files:
        if file.exists() and not overwrite:
            raise UserError(f"{file} is there already: keep both with --name, or replace it with --overwrite")


def write_outcome(file: Path, outcome: Outcome, facts: Mapping[str, Any]) -> None:
    """Everything that is needed to trust the numbers."""
    text = result_text({**asdict(outcome), **facts})
    try:
        file.parent.mkdir(exist_ok=True)
        write_text(file, text)
    except OSError as error:
        raise RunError(
            f"{file} cannot be written ({error.strerror}): make room there and try again"
        ) from error


def result_text(content: Mapping[str, Any]) -> str:
    """As it stands in its file."""
    lines = []
    for key, value in content.items():
        # details hold matrices: on one line, or each number would have its own
        indent = None if key == "details" else 1
        lines.append(f"{json.dumps(key)}: {json.dumps(value, indent=indent, allow_nan=False, default=str)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def show_outcome(console: Console, title: str, outcome: Outcome) -> None:
    """A table, and the protocol under it."""
    table = Table(title=title, title_justify="left")
    table.add_column("number")
    table.add_column("per cent", justify="right")
    for number in outcome.numbers:
        table.add_row(number.name, str(number))
    console.print(table)
    console.print(f"protocol: {outcome.protocol}", highlight=False, soft_wrap=True)
