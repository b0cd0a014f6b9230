"""Files of a run as they are found: cut off, damaged or of another version, and never a reason to fail."""

import csv
import io
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from semppl.core.rundir import KEPT
from semppl.report.gaps import Damaged


def read_text(file: Path) -> str:
    """Bytes that are no UTF-8 are kept as Python keeps them in names of files."""
    try:
        return file.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise Damaged(f"{file.name} cannot be read ({error.strerror})") from error


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{file.name} is damaged (no valid JSON)") from error
    if not isinstance(content, dict):
        raise Damaged(f"{file.name} is damaged (no JSON object)")
    return content


def kept_mark(path: Path) -> dict[str, Any]:
    """What a copy of a run says of what it lacks (`report/table/record.py`); nothing of other folders."""
    with suppress(Damaged):
        return read_json(path / KEPT)
    return {}


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML mapping."""
    try:
        content = yaml.safe_load(read_text(file))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Damaged(f"{file.name} is damaged (no valid YAML)") from error
    if not isinstance(content, dict):
        raise Damaged(f"{file.name} is damaged (no YAML mapping)")
    return content


def read_metrics(file: Path) -> tuple[list[dict[str, Any]], int]:
    """Lines of metrics in the order of steps, and how many could not be read; of one step the last counts."""
    rows: dict[int, dict[str, Any]] = {}
    lost = 0
    for line in read_text(file).split("\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rows[int(row["step"])] = row
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            lost += 1
    return [rows[step] for step in sorted(rows)], lost


def read_table(file: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """These columns of a CSV file; a last line that was cut off is passed over."""
    try:
        lines = list(csv.reader(io.StringIO(read_text(file), newline="")))
    except csv.Error as error:
        raise Damaged(f"{file.name} is damaged (no valid CSV)") from error
    header = lines[0] if lines else []
    if missing := [name for name in columns if name not in header]:
        raise Damaged(f"{file.name} is damaged (no column {missing[0]})")
    places = [header.index(name) for name in columns]
    return [tuple(line[i] for i in places) for line in lines[1:] if len(line) == len(header)]


def finite(value: object) -> float | None:
    """A number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def counts(value: object) -> list[int] | None:
    """A list of counts, if it is one."""
    if not isinstance(value, list) or not value:
        return None
    fine = all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in value)
    return value if fine else None


def strings(value: object) -> tuple[str, ...]:
    """A list of names, if it is one."""
    return tuple(str(each) for each in value) if isinstance(value, list) else ()
