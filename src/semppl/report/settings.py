"""Flags of the verb `report`. No torch here, so that --help is quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from semppl.core.errors import UserError
from semppl.core.rundir import is_stream
from semppl.report.text import plain

REPORT: Final = "report.html"
GENERATOR: Final = "semppl report"
# how a page of ours begins; far more than what stands before the mark
_OPENING: Final = 4096


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Where the page goes, and what is computed for it."""

    out: Path | None = None
    """File for the page; by default RUN/report.html, or report.html in this folder for several runs."""
    table: Path | None = None
    """Instead of that page a table of results in Markdown in this file: by number of labels, a row for each
    method with its seeds, and the commands that make it again."""
    beside: Path | None = None
    """Of --table: published numbers to stand beside ours, a CSV file with name,labels,epochs,top1,source."""
    keep: Path | None = None
    """Of --table: a folder for a small copy of each run, DIR/NAME with what the table needs and no more, from
    which the same page can be made again: to be kept beside it."""
    umap: Literal["auto", "on", "off"] = "auto"
    """A second map of the images, beside their principal components. auto: where umap-learn is installed."""
    overwrite: bool = False
    """Replace a file that is no page of ours; a page of ours is always replaced."""
    debug: bool = False
    """Show the traceback of an error."""


def destination(paths: Sequence[Path], flags: ReportFlags) -> Path:
    """Where the page goes; refuses what would be in somebody's way."""
    out = flags.out or (paths[0] / REPORT if len(paths) == 1 else Path(REPORT))
    if out.is_dir():
        raise UserError(f"{plain(str(out))} is a folder: name a file with --out")
    if not out.parent.is_dir():
        raise UserError(f"{plain(str(out.parent))} is no folder: make it, or choose another --out")
    if out.exists() and not (flags.overwrite or is_stream(out) or ours(out)):
        raise UserError(
            f"{plain(str(out))} is no page of ours: replace it with --overwrite, or choose another --out"
        )
    return out


def ours(file: Path) -> bool:
    """Whether a file says that this verb wrote it."""
    try:
        with file.open("rb") as opened:
            return f'<meta name="generator" content="{GENERATOR}">'.encode() in opened.read(_OPENING)
    except OSError:
        return False
