"""Published numbers to stand beside ours: a table that the user gives."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.report.text import plain

COLUMNS: Final = ("name", "labels", "epochs", "top1", "source")


@dataclass(frozen=True)
class Published:
    """As their authors wrote it."""

    name: str
    labels: int
    epochs: str
    top1: str
    source: str


def read_published(file: Path) -> list[Published]:
    """Rows of a CSV file in its order."""
    try:
        lines = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8-sig"), newline="")))
    except OSError as error:
        raise UserError(f"{plain(str(file))} cannot be read ({error.strerror}): check --beside") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{plain(str(file))} is no CSV file in UTF-8: check --beside") from error
    header = [name.strip() for name in lines[0]] if lines else []
    if missing := [name for name in COLUMNS if name not in header]:
        raise UserError(
            f"{plain(str(file))} has no column {missing[0]}: --beside needs {','.join(COLUMNS)} in line 1"
        )
    return [_published(file, number, header, line) for number, line in enumerate(lines[1:], 2) if any(line)]


def _published(file: Path, number: int, header: Sequence[str], line: Sequence[str]) -> Published:
    where = f"{plain(str(file))}, line {number}"
    if len(line) != len(header):
        values = counted(len(line), "value")
        raise UserError(f"{where}: {values} for {len(header)} columns: quote a value with a comma")
    row = {name: value.strip() for name, value in zip(header, line, strict=True)}
    if not row["name"] or not row["top1"]:
        raise UserError(f"{where}: no {'top1' if row['name'] else 'name'}: fill it in, or remove the line")
    if not row["labels"].isascii() or not row["labels"].isdigit():
        raise UserError(f"{where}: labels is {row['labels']!r}: write their number, such as 4000")
    return Published(row["name"], int(row["labels"]), row["epochs"], row["top1"], row["source"])
