"""The verb `ablate`: plan, check, say how long, train what is missing, write the tables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from semppl.ablate.cell import LOG, Cell, evaluation_seconds
from semppl.ablate.conclusion import conclude
from semppl.ablate.copies import Copies
from semppl.ablate.files import TableFiles
from semppl.ablate.forecast import Measure, duration, forecast, seconds_per_step, seconds_to_start
from semppl.ablate.places import Places
from semppl.ablate.plan import Shelf, cells_of, foreign_cells, plan_cells
from semppl.ablate.pool import End, Work, run_cells
from semppl.ablate.settings import AblateFlags, check_flags, tables_of
from semppl.ablate.sharing import sharing_advice
from semppl.ablate.tables import ASKED_ROWS
from semppl.ablate.work import work
from semppl.config import Config
from semppl.core.counted import counted
from semppl.core.errors import RunError, UserError
from semppl.core.lock import locked
from semppl.train.device import choose_device, require_precision
from semppl.train.interrupt import Interrupted
from semppl.train.prepare import announce_data
from semppl.train.progress import StageProgress


def run_ablate(
    config: Config,
    tables: str,
    flags: AblateFlags,
    console: Console,
    command: str | None = None,
    *,
    work: Work = work,
    measure: Measure = seconds_per_step,
    start: Callable[[], float] = seconds_to_start,
) -> dict[str, dict[str, Any]]:
    """Everything on the page of each table, their names being joined by commas; RunError where a cell failed,
    Interrupted where a signal came.

    What is finished stays finished: the same command goes on.
    """
    names = tables_of(tables)
    check_flags(names, flags)
    device = choose_device(config.device)
    require_precision(config.precision, device)
    out = flags.out or Path("runs") / f"ablate-{Path(config.source).stem}"
    copies, beside = Copies(flags.keep, out), [TableFiles(out, name) for name in names]
    files = [TableFiles(flags.keep, name, "--keep") for name in names] if flags.keep else beside
    with locked(out), copies.locked():
        _require_room(out, files, names, flags)
        shelf = Shelf(device, console)
        dataset = shelf.get(config)
        announce_data(dataset, console)
        plans = [plan_cells(config, name, flags, out, dataset) for name in names]
        cells = cells_of(plans)
        foreign = foreign_cells(plans, shelf, copies, overwrite=flags.overwrite)
        places = Places([*files, *beside], foreign, copies)
        finished = [cell for cell in cells if places.score(cell) is not None]
        say = partial(console.print, highlight=False, soft_wrap=True)
        say(f"{', '.join(names)}: {counted(len(cells), 'cell')} in {out}, {len(finished)} of them finished")
        copies.keep_(finished)
        failed: dict[str, str] = {}
        signum = None
        if left := [cell for cell in cells if cell not in finished]:
            jobs = min(flags.jobs, len(left))
            to_go = [(cell, cell.steps - places.steps(cell)) for cell in left]
            spent = evaluation_seconds(finished)
            say(str(forecast(plans[0].base, to_go, shelf, device, jobs, spent, start=start, measure=measure)))
            if advice := sharing_advice(device, jobs):
                say(advice)
            signum = _train(left, places, copies, work, jobs, console, failed)
        scores = {cell.name: score for cell in cells if (score := places.score(cell)) is not None}
        lost = copies.attempt_(cell for cell in cells if cell.name in scores)
        for plan in plans:
            if not any(cell.name in scores for cell in plan.cells):
                places.withdraw_pages_of_(plan.cells)
        command = command or _command(config, tables, flags)
        found = {
            plan.table.name: conclude(plan, scores, flags, each, console, command, failed)
            for plan, each in zip(plans, files, strict=True)
        }
    _leave(len(cells), len(scores), failed, signum)
    if lost:
        raise RunError(lost)
    return found


def _require_room(out: Path, files: Sequence[TableFiles], names: Sequence[str], flags: AblateFlags) -> None:
    """Refuse a place where tables would be in somebody's way, or in that of one with other rows."""
    if (out / "config.yaml").exists():
        raise UserError(f"{out} is a run: choose another --out for the table and its cells")
    for name, each in () if flags.overwrite else zip(names, files, strict=True):
        each.require_ours()
        if name in ASKED_ROWS:
            each.require_no_less(ASKED_ROWS[name](flags))


def _train(
    left: Sequence[Cell],
    places: Places,
    copies: Copies,
    work: Work,
    jobs: int,
    console: Console,
    failed: dict[str, str],
) -> int | None:
    """All cells that are left; fills in which failed. Each is kept as soon as it is finished."""
    say = partial(console.print, highlight=False, soft_wrap=True)
    before = {cell.name: places.steps(cell) for cell in left}
    finished: set[str] = set()

    def count() -> tuple[int, int]:
        now = {cell.name: places.steps(cell) for cell in left}
        whole = {cell.name: cell.steps for cell in left}
        return count_steps(before, now | {name: whole[name] for name in finished}, whole, failed)

    def ended(end: End) -> None:
        if end.stopped:
            say(f"{end.cell.name}: stopped, and kept as far as it is")
        elif end.error is None:
            finished.add(end.cell.name)
            over = len(finished) + len(failed)
            said = f"done after {duration(end.seconds)} ({over} of {len(left)})", copies.attempt_([end.cell])
            say(f"{end.cell.name}: {', '.join(filter(None, said))}")
        else:
            failed[end.cell.name] = end.error
            say(f"{end.cell.name}: {end.error} (its log: {end.cell.path / LOG})")

    def told(running: int) -> None:
        say(f"stopping, once {counted(running, 'running cell')} wrote what there is")

    with StageProgress(console, f"steps of {counted(len(left), 'cell')}", count()[1]) as progress:

        def look() -> None:
            steps, total = count()
            if 50 * steps >= total:  # before, starting has taken longer than training
                progress.advance(steps, total)

        return run_cells(left, work, jobs=jobs, begin=places.begin_, ended=ended, look=look, told=told)


def count_steps(
    before: Mapping[str, int], now: Mapping[str, int], whole: Mapping[str, int], failed: Collection[str]
) -> tuple[int, int]:
    """Steps since we began, and of how many: those that a failed cell lacks are nobody's any more."""
    done = {name: max(now[name] - before[name], 0) for name in before}
    total = sum(done[name] if name in failed else whole[name] - before[name] for name in before)
    return sum(done.values()), total


def _leave(cells: int, finished: int, failed: Mapping[str, str], signum: int | None) -> None:
    if signum is not None:
        raise Interrupted(
            f"stopped with {finished} of {counted(cells, 'cell')} finished: the same command goes on", signum
        )
    if failed:
        names = ", ".join(failed)
        raise RunError(f"{len(failed)} of {counted(cells, 'cell')} failed ({names}): the table lacks them")


def _command(config: Config, tables: str, flags: AblateFlags) -> str:
    return f"semppl ablate {tables} {Path(config.source).name} --seed {config.seed} --seeds {flags.seeds}"
