"""The rows of a table of text with the columns `path` and `label`, and the lines of a list.

Each mistake is one line that names the file and the row. A row is counted as a spreadsheet shows it: the
header is row 1, and a row that spans lines has the number of its first.
"""

import csv
import io
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.errors import UserError

_DELIMITERS: Final = (",", ";", "\t")
_SHOWN: Final = 80
# how spreadsheets, archives, documents and images begin
_BINARY: Final = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"%PDF", b"\x89PNG", b"\xff\xd8\xff")
_NO_TEXT: Final = "this is no table of text (a spreadsheet? save it as CSV)"
# bytes that are no UTF-8 stand in a text as Python keeps them in names of files
_KEPT: Final = "surrogateescape"
_UTF16: Final = (b"\xff\xfe".decode(errors=_KEPT), b"\xfe\xff".decode(errors=_KEPT))


@dataclass(frozen=True)
class Row:
    """As written, but for blanks around the label."""

    number: int
    path: str
    label: str


def read_rows(file: Path) -> Iterator[Row]:
    """Rows with their two fields cleaned; those without any content are passed over.

    A path may hold bytes that are no UTF-8, as the tables of our runs do where the name of a file has them.
    """
    text = _text(file)
    records = _records(text, _delimiter(text, file), file)
    first, header = next(records)
    columns = [name.strip().casefold() for name in header]
    if twice := [name for name in ("path", "label") if columns.count(name) > 1]:
        raise UserError(f"{file}: row {first} has the column {twice[0]!r} twice: keep one of the two")
    path, label = columns.index("path"), columns.index("label")
    for number, fields in records:
        if len(fields) <= max(path, label):
            found = f"{len(fields)} field{'s' * (len(fields) > 1)}"
            raise UserError(
                f"{file}: row {number} has only {found}, {fields}: path and label are both needed"
            )
        if any(field.strip() for field in fields[len(columns) :]):
            raise UserError(
                f"{file}: row {number} has {len(fields)} fields, {fields}, and the header {len(columns)}: "
                "put a field that contains the delimiter in quotes"
            )
        _require_utf8(file, number, fields[label])
        yield Row(number, fields[path], unicodedata.normalize("NFC", fields[label].strip()))


def numbered_lines(file: Path) -> list[tuple[int, str]]:
    """Lines of a text with their numbers; blank lines and comments, which start with #, are passed over."""
    lines = [(number, line.strip()) for number, line in enumerate(io.StringIO(_text(file), newline=""), 1)]
    for number, line in lines:
        _require_utf8(file, number, line)
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def not_utf8(row: int, text: str) -> str | None:
    """What is said of a text with bytes that are no UTF-8, if it has any."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = text[error.start].encode(errors=_KEPT)[0]
        return f"row {row} is not UTF-8 (byte 0x{byte:02x}): save it as UTF-8"
    return None


def _require_utf8(file: Path, row: int, text: str) -> None:
    if problem := not_utf8(row, text):
        raise UserError(f"{file}: {problem}")


def _text(file: Path) -> str:
    if not file.is_file():
        raise UserError(f"{file}: {'a folder, not a file' if file.is_dir() else 'no such file'}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    if content.startswith(_BINARY):
        raise UserError(f"{file}: {_NO_TEXT}")
    return content.decode("utf-8-sig", _KEPT)


def _delimiter(text: str, file: Path) -> str:
    """The one that finds both columns in the first line."""
    first = next((line for line in io.StringIO(text, newline="") if line.strip()), None)
    if first is None:
        raise UserError(
            f"{file}: the file is empty: a header 'path,label' and a row for each label are needed"
        )
    for delimiter in _DELIMITERS:
        with suppress(csv.Error):  # a field that is too long: this is no header
            fields = next(csv.reader([first], delimiter=delimiter))
            if {"path", "label"} <= {field.strip().casefold() for field in fields}:
                return delimiter
    raise UserError(f"{file}: {_no_header(text, ' '.join(first.split()))}")


def _no_header(text: str, first: str) -> str:
    if "\0" in text and not text.startswith(_UTF16):
        return _NO_TEXT
    begins = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…"
    header = f"no header: the first line is {begins!r}, but it must name the columns: path,label"
    return not_utf8(1, first) or header


def _records(text: str, delimiter: str, file: Path) -> Iterator[tuple[int, list[str]]]:
    """Records that have any content, each with the number of the line where it starts."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{file}: row {number} is not well-formed ({error}): look at its quotes"
            ) from error
        if any(field.strip() for field in fields):
            yield number, fields
