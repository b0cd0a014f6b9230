"""The verb `report`: run directories in, one page out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory, write_atomically
from semppl.report import gaps
from semppl.report.collect import Run, collect
from semppl.report.exhibit import read_features
from semppl.report.gaps import Damaged, Gap
from semppl.report.map import umap_map, wanted
from semppl.report.page import Pictures, run_page, several_page
from semppl.report.settings import REPORT, ReportFlags, destination, ours
from semppl.report.table.run import run_table
from semppl.report.text import bytes_of, plain
from semppl.report.thumbnails import Sheet, load_sheets

# of the 25 MB that a page may have: Plotly takes 5, and numbers 2
_IMAGES_BYTES: Final = 14_000_000
_ADVICE_BYTES: Final = 3_000_000


def run_report(paths: Sequence[Path], flags: ReportFlags, console: Console) -> Path:
    """One page about a run, or one about several side by side; gives its file."""
    if not paths:
        raise UserError("say which run, before any flag: semppl report RUN")
    once = list({path.resolve(): path for path in reversed(paths)}.values())[::-1]
    if len(once) < len(paths):
        console.print("the same run was given more than once: it counts once", highlight=False)
    if flags.table is not None:
        return run_table(once, flags, console)
    if flags.beside is not None:
        raise UserError("--beside stands in the table of results: say where with --table FILE.md")
    if flags.keep is not None:
        raise UserError("--keep is for the runs of a table of results: say where with --table FILE.md")
    runs, umap = [collect(path) for path in once], wanted(flags.umap)
    out = destination(once, flags)
    if len(runs) == 1:
        page, missing = _single(runs[0], console, umap=umap)
    else:
        missing = [
            replace(gap, what=f"{run.name}: {gap.what}")
            for run in runs
            for gap in run.gaps
            if not gap.pictures
        ]
        page = several_page(runs)
    size = _write(out, page)
    for gap in missing:
        command = f": {gap.command}" if gap.command else ""
        console.print(plain(f"missing: {gap.what}{command}"), highlight=False, soft_wrap=True)
    console.print(plain(f"report: {out} ({bytes_of(size)})"), highlight=False, soft_wrap=True)
    return out


def write_report(run: RunDirectory) -> Path | None:
    """RUN/report.html at the end of another verb; None where it could not be written, whatever the reason.

    Without UMAP, which takes longer than all the rest: `semppl report RUN` adds it.
    """
    out = run.path / REPORT
    if out.exists() and not ours(out):
        return None
    try:
        page, _ = _single(collect(run.path), Console(quiet=True), umap=False)
        _write(out, page)
    except Exception:  # noqa: BLE001 - a page is no reason to fail what it tells about
        return None
    return out


def _single(run: Run, console: Console, *, umap: bool) -> tuple[str, list[Gap]]:
    pictures = _pictures(run, console, umap=umap)
    return run_page(run, pictures), [*run.gaps, *pictures.gaps]


def _pictures(run: Run, console: Console, *, umap: bool) -> Pictures:
    again = gaps.resume(run.path, journey=(run.path / "fit.yaml").is_file())
    sheets: list[Sheet | None] = []
    advice: list[Sheet | None] = []
    places, missing = None, []
    if run.exhibit is not None:
        sheets, problems = load_sheets(run.folder, run.exhibit.tiles, _IMAGES_BYTES)
        missing += [
            Gap(f"exhibit/{problem}: some images have no thumbnail", again, pictures=True)
            for problem in problems
        ]
        if umap:
            try:
                features_NP = read_features(run.folder, len(run.exhibit.image_N))
                console.print("drawing the map with UMAP", highlight=False)
                places = umap_map(features_NP)
            except Damaged as error:
                missing.append(Gap(f"exhibit/{error}: no map by UMAP", again, pictures=True))
    if run.advice is not None:
        advice, problems = load_sheets(run.folder, run.advice.tiles, _ADVICE_BYTES)
        missing += [
            Gap(f"exhibit/{problem}: some advice has no thumbnail", again, pictures=True)
            for problem in problems
        ]
    return Pictures(sheets, advice, places, missing)


def _write(out: Path, page: str) -> int:
    content = page.encode()
    try:
        write_atomically(out, lambda file: file.write(content))
    except OSError as error:
        raise RunError(
            f"{plain(str(out))} cannot be written ({error.strerror}): choose another --out"
        ) from error
    return len(content)
