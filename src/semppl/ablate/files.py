"""The files of a table: ours are written, replaced and withdrawn, somebody's own are left. No torch here."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from semppl.core.errors import RunError, UserError
from semppl.core.rundir import write_text

MADE_BY: Final = "semppl ablate"
"""What tells a file of ours from somebody's own."""


@final
class TableFiles:
    """TABLE.md in a folder, the same as data, and a picture that belongs to the page; `flag` chose the
    folder.
    """

    def __init__(self, folder: Path, table: str, flag: str = "--out") -> None:
        self.page, self.data, self.picture = (folder / f"{table}.{kind}" for kind in ("md", "json", "png"))
        self._flag = flag

    def require_ours(self) -> None:
        """Refuse a place where the table would be in somebody's way."""
        for file in (self.picture, self.page, self.data):
            said_in = self.page if file == self.picture else file  # a picture cannot say whose it is
            if file.exists() and MADE_BY not in _text(said_in):
                raise UserError(
                    f"{file} is there already and not ours: choose another {self._flag}, or use --overwrite"
                )

    def require_no_less(self, rows: Collection[str]) -> None:
        """Refuse to replace a table that has rows which ours would not have."""
        lost = []
        with suppress(ValueError, TypeError, LookupError):  # what cannot be read holds nothing to lose
            lost = [row["row"] for row in json.loads(_text(self.data))["rows"] if row["row"] not in rows]
        if lost:
            raise UserError(
                f"{self.page} has rows that this table would not have ({lost[0]}): give them, too, choose "
                f"another {self._flag}, or use --overwrite"
            )

    def write(self, page: str, content: Mapping[str, Any]) -> None:
        """Both, each as a whole."""
        try:
            write_text(self.page, page)
            write_text(self.data, json.dumps(content, indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise RunError(
                f"{self.page} cannot be written ({error.strerror}): make room, or choose another {self._flag}"
            ) from error

    def shows(self, cell: str) -> bool:
        """Whether it has the numbers of a cell."""
        return f"`{cell}`" in _text(self.page) or f'"{cell}"' in _text(self.data)

    def withdraw_(self) -> None:
        """Numbers whose cells are gone are shown no longer; a picture goes where our page shows it."""
        files = [file for file in (self.data, self.page) if MADE_BY in _text(file)]
        if self.page in files and f"]({self.picture.name})" in _text(self.page):
            files.insert(0, self.picture)
        for file in files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise UserError(
                    f"cannot remove {file} ({error.strerror}): choose another {self._flag}"
                ) from error


def _text(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text()
    return ""
