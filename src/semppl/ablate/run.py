"""The verb `ablate`: plan, check, say how long, train what is missing, write the table."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console

from semppl.ablate.cell import LOG, Cell, Score, evaluation_seconds
from semppl.ablate.curve import NARROW as NARROW_CURVE
from semppl.ablate.curve import SPARE as SPARE_CURVE
from semppl.ablate.curve import curve_rows, draw_curve, gains
from semppl.ablate.files import TableFiles
from semppl.ablate.forecast import Measure, duration, forecast, seconds_per_step, seconds_to_start
from semppl.ablate.markdown import Facts, content, page
from semppl.ablate.narrow import narrowed
from semppl.ablate.places import Places
from semppl.ablate.plan import Plan, Shelf, foreign_cells, plan_cells
from semppl.ablate.pool import End, Work, run_cells
from semppl.ablate.settings import AblateFlags, check_flags, labels_per_class
from semppl.ablate.sharing import sharing_advice
from semppl.ablate.summary import NARROW, SPARE, Summary, directions, headline, narrow_lines
from semppl.ablate.work import work
from semppl.config import Config
from semppl.core.counted import counted
from semppl.core.errors import RunError, UserError
from semppl.core.lock import locked
from semppl.core.rundir import environment
from semppl.differing import decisive
from semppl.train.device import choose_device, describe_device, require_precision
from semppl.train.interrupt import Interrupted
from semppl.train.prepare import announce_data
from semppl.train.progress import StageProgress, print_table


def run_ablate(
    config: Config,
    table: str,
    flags: AblateFlags,
    console: Console,
    command: str | None = None,
    *,
    work: Work = work,
    measure: Measure = seconds_per_step,
    start: Callable[[], float] = seconds_to_start,
) -> dict[str, Any]:
    """Everything on the table's page; RunError where a cell failed, Interrupted where a signal came.

    What is finished stays finished: the same command goes on.
    """
    check_flags(table, flags)
    device = choose_device(config.device)
    require_precision(config.precision, device)
    out = flags.out or Path("runs") / f"ablate-{Path(config.source).stem}"
    files = TableFiles(out, table)
    with locked(out):
        if (out / "config.yaml").exists():
            raise UserError(f"{out} is a run: choose another --out for the table and its cells")
        if not flags.overwrite:
            files.require_ours()
        shelf = Shelf(device, console)
        dataset = shelf.get(config)
        announce_data(dataset, console)
        plan = plan_cells(config, table, flags, out, dataset)
        places = Places(files, foreign_cells(plan, shelf, overwrite=flags.overwrite))
        left = [cell for cell in plan.cells if places.score(cell) is None]
        say = partial(console.print, highlight=False, soft_wrap=True)
        say(f"{table}: {len(plan.cells)} cells in {out}, {len(plan.cells) - len(left)} of them finished")
        failed: dict[str, str] = {}
        signum = None
        if left:
            jobs = min(flags.jobs, len(left))
            evaluation = evaluation_seconds(cell for cell in plan.cells if cell not in left)
            to_go = [(cell, cell.steps - places.steps(cell)) for cell in left]
            time = forecast(
                plan, to_go, shelf, device, jobs, evaluation=evaluation, start=start, measure=measure
            )
            say(str(time))
            if advice := sharing_advice(device, jobs):
                say(advice)
            signum = _train(left, places, work, jobs, console, failed)
        scores = {cell.name: score for cell in plan.cells if (score := places.score(cell)) is not None}
        if not scores:
            places.withdraw_page_of_(plan.cells)
        found = _conclude(
            plan, scores, flags, files, console, command or _command(config, table, flags), failed
        )
    _leave(plan, len(scores), failed, signum)
    return found


def _train(
    left: Sequence[Cell], places: Places, work: Work, jobs: int, console: Console, failed: dict[str, str]
) -> int | None:
    """All cells that are left; fills in which failed."""
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
            say(f"{end.cell.name}: done after {duration(end.seconds)} ({over} of {len(left)})")
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


def _conclude(
    plan: Plan,
    scores: Mapping[str, Score],
    flags: AblateFlags,
    files: TableFiles,
    console: Console,
    command: str,
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """The table with what there is, on the console and as files."""
    found = {key: scores[cell.name] for key, cell in plan.grid.items() if cell.name in scores}
    summary = Summary(plan.table, plan.seeds, found)
    per_class = labels_per_class(flags) if plan.table.name == "labels" else ()
    drawn = bool(per_class and scores) and draw_curve(summary, per_class, files.picture)
    facts = Facts(
        command=command,
        configuration=asdict(plan.base),
        sha256=_digest(plan.base),
        main=main_values(plan.base),
        cells={key: cell.name for key, cell in plan.grid.items()},
        changes={row.name: _changes(plan, row.name) for row in plan.table.rows},
        failed=failed,
        environment=environment() | {"device": describe_device(choose_device(plan.base.device))},
        per_class=per_class,
        picture=files.picture.name if drawn else None,
    )
    everything = content(summary, facts)
    if scores:
        files.write(page(summary, facts), everything)
        _show(summary, per_class, console)
        console.print(f"written: {files.page} and {files.data.name}", highlight=False, soft_wrap=True)
    return everything


def _show(summary: Summary, per_class: tuple[int, ...], console: Console) -> None:
    if per_class:
        shown = narrowed(NARROW_CURVE, curve_rows(summary, per_class), SPARE_CURVE, console.width)
    else:
        shown = narrowed(NARROW, narrow_lines(summary), SPARE, console.width)
    print_table(console, summary.table.title, *shown)
    said = [*directions(summary), *([gains(summary, per_class)] if per_class else []), headline(summary)]
    for line in said:
        console.print(line, highlight=False, soft_wrap=True)


def _leave(plan: Plan, finished: int, failed: Mapping[str, str], signum: int | None) -> None:
    if signum is not None:
        raise Interrupted(
            f"stopped with {finished} of {len(plan.cells)} cells finished: the same command goes on", signum
        )
    if failed:
        names = ", ".join(failed)
        raise RunError(f"{len(failed)} of {len(plan.cells)} cells failed ({names}): the table lacks them")


def _changes(plan: Plan, row: str) -> str:
    """What a row changes, as flags."""
    base, config = (decisive(each) for each in (plan.base, plan.grid[row, plan.seeds[0]].config))
    changed = [name for name in base if base[name] != config[name]]
    return " ".join(f"--{name.replace('_', '-')} {_value(config[name])}" for name in changed)


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _digest(base: Config) -> str:
    values = {key: value for key, value in decisive(base).items() if key not in ("seed", "data.split_seed")}
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def main_values(base: Config) -> str:
    """A configuration in a few words."""
    data, views, method = base.data, base.views, base.method
    labels = [
        f"{counted(data.labels_per_class, 'label')} per class" if data.labels_per_class is not None else "",
        f"{data.label_fraction:.3g} of the labels" if data.label_fraction is not None else "",
    ]
    parts = [
        Path(base.source).name,
        *(words for words in labels if words),
        f"{counted(f'{base.epochs:.4g}', 'epoch')} of batches of {base.batch_size}",
        f"{base.net.encoder}, width {base.net.width:g}",
        f"{views.large} + {views.small} views of {views.large_size} and {views.small_size} px",
        f"{method.objective}, {counted(method.positives, 'positive')}, k = {method.k}, "
        f"queue {method.queue_capacity:,}, "
        f"α = {method.alpha:g}, votes at least {method.minimum_votes} of {base.num_ballots}",
        f"{base.optim.name}, rate {base.optim.base_lr:g} · batch / 256",
    ]
    return "; ".join(parts)


def _command(config: Config, table: str, flags: AblateFlags) -> str:
    return f"semppl ablate {table} {Path(config.source).name} --seed {config.seed} --seeds {flags.seeds}"
