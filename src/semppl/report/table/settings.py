"""Where the Markdown page goes: never over a file that somebody else wrote. No torch here."""

from pathlib import Path
from typing import Final

from semppl.core.errors import UserError
from semppl.core.rundir import is_stream
from semppl.report.settings import ReportFlags
from semppl.report.text import plain

MADE_BY: Final = "made by semppl report"


def table_destination(flags: ReportFlags) -> Path:
    """Refuses what would be in somebody's way."""
    if flags.table is None:
        raise ValueError("no --table")
    out = flags.table
    if flags.out is not None:
        raise UserError("--out is for the HTML page, and --table makes none: leave one of them out")
    if out.suffix.lower() == ".png":
        raise UserError(f"{plain(str(out))}: --table writes text, and a picture beside it: name it .md")
    if out.is_dir():
        raise UserError(f"{plain(str(out))} is a folder: name a file with --table")
    if not out.parent.is_dir():
        raise UserError(f"{plain(str(out.parent))} is no folder: make it, or choose another --table")
    if out.exists() and not (flags.overwrite or is_stream(out) or our_table(out)):
        raise UserError(
            f"{plain(str(out))} is no page of ours: replace it with --overwrite, or choose another --table"
        )
    return out


def picture_beside(out: Path, *, overwrite: bool) -> Path:
    """The picture of a page, where there is no other than one of ours."""
    picture = out.with_suffix(".png")
    if picture.exists() and not overwrite and MADE_BY.encode() not in _beginning(picture, 4096):
        raise UserError(
            f"{plain(str(picture))} is in the way of the page's picture: move it away, replace it with "
            "--overwrite, or choose another --table"
        )
    return picture


def our_table(file: Path) -> bool:
    """Whether it begins as the pages of this verb do."""
    start = f"<!-- {MADE_BY}:".encode()
    return _beginning(file, len(start)) == start


def _beginning(file: Path, count: int) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(count)
    except OSError:
        return b""
