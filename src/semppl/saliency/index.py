"""Which mask belongs to which content: a table that only grows while masks are made, so that an end before
its time loses a line of it at most.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

COLUMNS: Final = ("content", "name", "height", "width", "foreground")
_CODE: Final = ("utf-8", "surrogateescape")
_HEXADECIMAL: Final = 32


class Row(NamedTuple):
    """A mask that was made."""

    content: str
    """A hash of the image."""
    name: str
    """Of the mask's file."""
    height: int
    width: int
    foreground: float


@final
class Index:
    """Rows by the names of masks; of several with one name the last counts."""

    def __init__(self, path: Path, masks: Path) -> None:
        """Read what is there; rows whose mask is gone do not count, nor does half a line."""
        self._path, self._file = path, None
        self.rows: dict[str, Row] = {}
        for row in _rows(path):
            self.rows[row.name] = row
        self.rows = {name: row for name, row in self.rows.items() if (masks / name).is_file()}
        self._holders = {row.content: name for name, row in self.rows.items()}

    def holder(self, content: str) -> str | None:
        """The name of a mask of this content that is still there."""
        return self._holders.get(content)

    def known(self) -> NDArray[np.bytes_]:
        """All contents with a mask, sorted, so that a process finds one without reading them all."""
        return np.sort(np.array(list(self._holders), dtype=f"S{_HEXADECIMAL}"))

    @contextmanager
    def open(self) -> Iterator["Index"]:
        """To add rows."""
        fresh, torn = _state(self._path)
        with self._path.open("a", encoding=_CODE[0], errors=_CODE[1], newline="") as self._file:
            if torn:
                self._file.write("\n")
            if fresh:
                self._write_(COLUMNS)
            yield self

    def add_(self, row: Row) -> None:
        """A mask is there now."""
        before = self.rows.get(row.name)
        if before is not None and self._holders.get(before.content) == row.name:
            del self._holders[before.content]
        self.rows[row.name] = row
        self._holders[row.content] = row.name
        self._write_((*row[:4], f"{row.foreground:.6f}"))

    def _write_(self, values: tuple[object, ...]) -> None:
        if self._file is None:
            raise ValueError("open the index before a row is added")
        csv.writer(self._file, lineterminator="\n").writerow(values)
        self._file.flush()

    _file: IO[str] | None


def _state(path: Path) -> tuple[bool, bool]:
    """Whether the table is empty, and whether its last line has no end."""
    if not path.is_file() or not path.stat().st_size:
        return True, False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return False, file.read() != b"\n"


def _rows(path: Path) -> Iterator[Row]:
    if not path.is_file():
        return
    with path.open(encoding=_CODE[0], errors=_CODE[1], newline="") as file:
        for values in csv.reader(line.replace("\0", "") for line in file):
            with suppress(ValueError):  # half a line, or the header
                content, name, height, width, share = values
                if len(content) == _HEXADECIMAL:
                    yield Row(content, name, int(height), int(width), float(share))
