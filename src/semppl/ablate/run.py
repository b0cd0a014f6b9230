"""The verb `ablate`: plan, check, say how long, train what is missing, write the table."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console

from semppl.ablate.cell import LOG, Cell, score_of, steps_done
from semppl.ablate.curve import NARROW as NARROW_CURVE
from semppl.ablate.curve import curve_rows, draw_curve, gains
from semppl.ablate.forecast import Measure, duration, forecast, seconds_per_step
from semppl.ablate.markdown import MADE_BY, Facts, content, page
from semppl.ablate.plan import Plan, Shelf, foreign_cells, plan_cells
from semppl.ablate.pool import End, Work, run_cells
from semppl.ablate.settings import AblateFlags, check_flags, labels_per_class
from semppl.ablate.summary import NARROW, Summary, directions, headline, narrow_lines
from semppl.ablate.work import work
from semppl.config import Config, to_yaml
from semppl.core.errors import RunError, UserError
from semppl.core.lock import locked
from semppl.core.rundir import environment, write_text
from semppl.train.device import choose_device, describe_device
from semppl.train.interrupt import Interrupted
from semppl.train.prepare import announce_data
from semppl.train.progress import StageProgress, print_table
from semppl.train.resume import decisive


def run_ablate(
    config: Config,
    table: str,
    flags: AblateFlags,
    console: Console,
    command: str | None = None,
    *,
    work: Work = work,
    measure: Measure = seconds_per_step,
) -> dict[str, Any]:
    """Everything on the table's page; RunError where a cell failed, Interrupted where a signal came.

    What is finished stays finished: the same command goes on.
    """
    check_flags(table, flags)
    device = choose_device(config.device)
    if config.precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs")
    out = flags.out or Path("runs") / f"ablate-{Path(config.source).stem}"
    with locked(out):
        _require_ours(out, table, overwrite=flags.overwrite)
        shelf = Shelf(device, console)
        dataset = shelf.get(config)
        announce_data(dataset, console)
        plan = plan_cells(config, table, flags, out, dataset)
        for cell in foreign_cells(plan, shelf, overwrite=flags.overwrite):
            cell.run.prepare_(to_yaml(cell.config), overwrite=True)
        left = [cell for cell in plan.cells if score_of(cell) is None]
        say = partial(console.print, highlight=False, soft_wrap=True)
        say(f"{table}: {len(plan.cells)} cells in {out}, {len(plan.cells) - len(left)} of them finished")
        failed: dict[str, str] = {}
        signum = None
        if left:
            jobs = min(flags.jobs, len(left))
            say(str(forecast(plan, left, shelf, device, jobs, measure)))
            signum = _train(left, work, jobs, console, failed)
        found = _conclude(plan, flags, out, console, command or _command(config, table, flags), failed)
    _leave(plan, failed, signum)
    return found


def _require_ours(out: Path, table: str, *, overwrite: bool) -> None:
    """Refuse a place where the table would be in somebody's way."""
    if (out / "config.yaml").exists():
        raise UserError(f"{out} is a run: choose another --out for the table and its cells")
    page, picture = out / f"{table}.md", out / f"{table}.png"
    if picture.exists() and not page.exists() and not overwrite:
        raise UserError(f"{picture} is there already and not ours: choose another --out, or use --overwrite")
    for file in _files(out, table):
        text = ""
        with suppress(OSError, UnicodeDecodeError):
            text = file.read_text()
        if file.exists() and MADE_BY not in text and not overwrite:
            raise UserError(f"{file} is there already and not ours: choose another --out, or use --overwrite")


def _files(out: Path, table: str) -> tuple[Path, Path]:
    return out / f"{table}.md", out / f"{table}.json"


def _train(left: list[Cell], work: Work, jobs: int, console: Console, failed: dict[str, str]) -> int | None:
    """All cells that are left; fills in which failed."""
    say = partial(console.print, highlight=False, soft_wrap=True)
    before = {cell.name: steps_done(cell) for cell in left}
    over: set[str] = set()

    def done() -> int:
        """Steps since we began; a cell that is over counts whole, whatever its metrics say."""
        return sum(
            (cell.steps if cell.name in over else max(steps_done(cell), before[cell.name]))
            - before[cell.name]
            for cell in left
        )

    def ended(end: End) -> None:
        if end.stopped:
            say(f"{end.cell.name}: stopped, and kept as far as it is")
            return
        over.add(end.cell.name)
        if end.error is None:
            say(f"{end.cell.name}: done after {duration(end.seconds)} ({len(over)} of {len(left)})")
        else:
            failed[end.cell.name] = end.error
            say(f"{end.cell.name}: {end.error} (its log: {end.cell.path / LOG})")

    def told(running: int) -> None:
        say(f"stopping, once {_count(running, 'running cell')} wrote what there is")

    total = sum(cell.steps - before[cell.name] for cell in left)
    with StageProgress(console, f"steps of {_count(len(left), 'cell')}", total) as progress:

        def look() -> None:
            if 50 * (steps := done()) >= total:  # before, starting has taken longer than training
                progress.advance(steps)

        return run_cells(left, work, jobs=jobs, ended=ended, look=look, told=told)


def _conclude(
    plan: Plan, flags: AblateFlags, out: Path, console: Console, command: str, failed: Mapping[str, str]
) -> dict[str, Any]:
    """The table with what there is, on the console and as files."""
    scores = {key: score for key, cell in plan.grid.items() if (score := score_of(cell)) is not None}
    summary = Summary(plan.table, plan.seeds, scores)
    per_class = labels_per_class(flags) if plan.table.name == "labels" else ()
    picture = out / f"{plan.table.name}.png"
    drawn = bool(per_class and scores) and draw_curve(summary, per_class, picture)
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
        picture=picture.name if drawn else None,
    )
    found = content(summary, facts)
    if scores:
        text, data = _files(out, plan.table.name)
        write_text(text, page(summary, facts))
        write_text(data, json.dumps(found, indent=1, allow_nan=False) + "\n")
        _show(summary, per_class, console)
        console.print(f"written: {text} and {data.name}", highlight=False, soft_wrap=True)
    return found


def _show(summary: Summary, per_class: tuple[int, ...], console: Console) -> None:
    if per_class:
        print_table(console, summary.table.title, NARROW_CURVE, curve_rows(summary, per_class))
    else:
        print_table(console, summary.table.title, NARROW, narrow_lines(summary))
    said = [*directions(summary), *([gains(summary, per_class)] if per_class else []), headline(summary)]
    for line in said:
        console.print(line, highlight=False, soft_wrap=True)


def _leave(plan: Plan, failed: Mapping[str, str], signum: int | None) -> None:
    finished = sum(score_of(cell) is not None for cell in plan.cells)
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


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _digest(base: Config) -> str:
    values = {key: value for key, value in decisive(base).items() if key not in ("seed", "data.split_seed")}
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def main_values(base: Config) -> str:
    """A configuration in a few words."""
    data, views, method = base.data, base.views, base.method
    labels = [
        f"{data.labels_per_class} labels per class" if data.labels_per_class is not None else "",
        f"{data.label_fraction:.3g} of the labels" if data.label_fraction is not None else "",
    ]
    parts = [
        Path(base.source).name,
        *(words for words in labels if words),
        f"{base.epochs:.4g} epochs of batches of {base.batch_size}",
        f"{base.net.encoder}, width {base.net.width:g}",
        f"{views.large} + {views.small} views of {views.large_size} and {views.small_size} px",
        f"{method.objective}, {method.positives} positives, k = {method.k}, queue {method.queue_capacity:,}, "
        f"α = {method.alpha:g}, votes at least {method.minimum_votes} of {base.num_ballots}",
        f"{base.optim.name}, rate {base.optim.base_lr:g} · batch / 256",
    ]
    return "; ".join(parts)


def _command(config: Config, table: str, flags: AblateFlags) -> str:
    return f"semppl ablate {table} {Path(config.source).name} --seed {config.seed} --seeds {flags.seeds}"
