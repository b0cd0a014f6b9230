"""`--keep DIR`: records of all runs of a page, so that it can be made again where the runs are not."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from semppl.core.errors import RunError, UserError
from semppl.core.staging import put_, staged
from semppl.report.collect import Run, collect
from semppl.report.table.record import is_record, results_of, same_run, strangers, write_record
from semppl.report.text import plain


def records_of(runs: Sequence[Run], folder: Path) -> dict[Path, Run]:
    """Where the record of each goes, but for those that lie there already; refuses what would be in
    somebody's way.
    """
    around = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not around.is_dir():
        raise UserError(f"{_said(around)} is a file: choose another --keep")
    named: dict[str, Run] = {}
    for run in runs:
        if (other := named.setdefault(run.name, run)) is not run:
            raise UserError(
                f"{_said(other.path)} and {_said(run.path)} have the same name, and --keep goes by it: "
                "rename one of them"
            )
        _require_apart(run, folder)
    places = {folder / name: run for name, run in named.items() if not _there(folder / name, run)}
    for place, run in places.items():
        if why := _in_the_way(place, run):
            raise UserError(f"{_said(place)} {why}: move it away, or choose another --keep")
    return places


def _require_apart(run: Run, folder: Path) -> None:
    """A run's own folders are no place for copies, and its copy would take its place; a record may lie
    among records.
    """
    own, there = run.path.resolve(), folder.resolve()
    if own in (there, *there.parents):
        raise UserError(f"--keep {_said(folder)} lies in the run {_said(run.path)}: choose another folder")
    if there in own.parents and not is_record(run.path):
        raise UserError(
            f"--keep {_said(folder)} holds the run {_said(run.path)} itself: choose a folder for copies alone"
        )


def _there(place: Path, run: Run) -> bool:
    return place.resolve() == run.path.resolve() and is_record(place)


def _in_the_way(place: Path, run: Run) -> str:
    """Why what is there must stay; empty where nothing is, or a record of the same run."""
    if not place.exists():
        return ""
    if not is_record(place):
        return "is no copy that --keep made"
    if more := strangers(place):
        return f"holds more than a copy ({plain(more[0])})"
    if not same_run(run, collect(place)):
        return "is a copy of another run"
    lost = sorted(results_of(place) - results_of(run.path))
    return f"has results that {_said(run.path)} lacks ({plain(lost[0])})" if lost else ""


def keep_(places: Mapping[Path, Run]) -> int:
    """All are written before the first one takes its place; gives their bytes."""
    try:
        with ExitStack() as stack:
            folders = {place: stack.enter_context(staged(place)) for place in places}
            for place, run in places.items():
                write_record(run, folders[place])
            size = sum(
                each.stat().st_size
                for folder in folders.values()
                for each in folder.rglob("*")
                if each.is_file()
            )
            for place, folder in folders.items():
                put_(folder, place)
    except OSError as error:
        what = f"{_said(Path(error.filename))}: {error.strerror}" if error.filename else error.strerror
        raise RunError(f"no copies for --keep ({what}): make room, or choose another folder") from error
    return size


def _said(path: Path) -> str:
    return plain(str(path))
