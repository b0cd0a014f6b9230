"""The verb `pretrain`: data, run directory, a new run or the rest of an old one."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from semppl.config import Config, files_of, required
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory, write_text
from semppl.data.dataset import Dataset
from semppl.data.masks import ABSENT
from semppl.data.scan import bad_table
from semppl.train.build import Training, build_training
from semppl.train.checkpoint import Say
from semppl.train.curves import Curves
from semppl.train.device import choose_device, describe_device, require_precision
from semppl.train.exhibit import FOLDER, write_exhibit
from semppl.train.feed import Feed
from semppl.train.interrupt import Interrupted
from semppl.train.loop import Cadence, Loop
from semppl.train.monitor import Probe, Tally
from semppl.train.prepare import Prepared, prepared_for, require_same_everywhere
from semppl.train.progress import ProgressReport
from semppl.train.ranks import ALONE, Ranks
from semppl.train.recovery import Recovery
from semppl.train.resume import job, require_same_step, restarted, resume_
from semppl.train.sheet import positives_sheet
from semppl.train.start import start_from_
from semppl.train.state import TrainState
from semppl.train.writer import Writer
from semppl.views.preprocessing import Preprocessing


def pretrain(
    config: Config,
    run: RunDirectory,
    *,
    console: Console,
    resume: bool = False,
    overwrite: bool = False,
    init_from: Path | None = None,
    title: str = "pre-training",
    hint: str | None = None,
    dataset: Dataset | None = None,
    also: Mapping[str, str] | None = None,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
) -> TrainState:
    """Train to the end. Nothing is written before everything that the user gave has been checked.

    `hint` says how to go on with the job of which this is a part: a signal with the last step ends it, too.
    `dataset` is the data of the configuration where the caller has read and announced it already; `also` are
    texts that a new run directory holds from its start. Of several `ranks` the main one speaks and writes;
    `device` is this one's.
    """
    console = console if ranks.main else Console(quiet=True)
    say = partial(console.print, highlight=False, soft_wrap=True)
    aloud = say if ranks.main else _stranger(ranks)
    with ExitStack() as stack:
        if again := ranks.from_main(not resume and restarted(run)):
            resume, overwrite = True, False
        ranks.together(lambda: _take(run, stack, ranks, resume=resume))
        if resume and not again and (init_from is not None or overwrite):
            raise UserError("--resume goes on with a run; --init-from and --overwrite start a new one")
        if not resume:
            given = (*files_of(config), init_from)
            ranks.together(lambda: run.require_free(overwrite=overwrite, given=given))
        here = _device_of(config, device)
        prepared = ranks.together(
            lambda: prepared_for(config, run, here, console, dataset, init_from, ranks, resume=resume)
        )
        ranks.together(lambda: require_same_everywhere(ranks, prepared.facts))
        training = ranks.together(lambda: build_training(prepared.config, prepared.dataset, here, ranks))
        facts = prepared.facts | {"preprocessing": _preprocessing(training, prepared.config)}
        goes_on = resume and ranks.together(lambda: resume_(training, run, facts, say))
        if resume:
            ranks.together(lambda: require_same_step(training, run))
        if not goes_on:
            ranks.together(lambda: _begin_(training, run, prepared, console, resume=resume))
        _announce(training, console, resume=resume)
        trained = training.state.step >= training.total_steps
        ranks.together(
            lambda: (
                _write_start(
                    run,
                    prepared,
                    facts,
                    also or {},
                    here,
                    resume=resume,
                    overwrite=overwrite,
                    trained=trained,
                )
                if ranks.main
                else None
            )
        )
        progress = ProgressReport(console, title, start=training.state.step, total=training.total_steps)
        own = f"go on with `semppl pretrain --resume --out {run.quoted}`"
        try:
            late = _loop_(training, run, prepared, facts, progress, say, aloud, hint or own)
        finally:
            _end_feed(training.feed, aloud)
        if ranks.main:
            _exhibit(training, run, prepared, say)
        if late and hint is not None:
            raise Interrupted(f"stopped after {title}, which is kept: {hint}", late)
        return training.state


def _begin_(
    training: Training, run: RunDirectory, prepared: Prepared, console: Console, *, resume: bool
) -> None:
    """With the weights that were asked for; a run that goes on without a checkpoint is not told of them."""
    if resume and prepared.start is None and run.started_from.is_file():
        raise UserError(
            f"{run.path} has no checkpoint yet and began with other weights (see {run.started_from.name}): "
            "start it anew, with --init-from and --overwrite"
        )
    start_from_(training.state, prepared.start, console)


def _stranger(ranks: Ranks) -> Say:
    """For what only another rank than the main one knows."""
    console, rank = Console(stderr=True, markup=False), ranks.share.rank
    return lambda line: console.print(f"rank {rank}: {line}", highlight=False, soft_wrap=True)


def _take(run: RunDirectory, stack: ExitStack, ranks: Ranks, *, resume: bool) -> None:
    """The folder is this job's from here on."""
    if resume:
        run.require()
    if ranks.main:
        stack.enter_context(run.locked())
        if resume:
            run.sweep_()


def _write_start(
    run: RunDirectory,
    prepared: Prepared,
    facts: dict[str, Any],
    also: Mapping[str, str],
    device: torch.device,
    *,
    resume: bool,
    overwrite: bool,
    trained: bool,
) -> None:
    """What a run directory has from its start. One that is trained keeps the environment that did it."""
    if not resume:
        run.prepare_(facts["config"], overwrite=overwrite)
        if prepared.start is not None:
            write_text(run.started_from, prepared.start.as_json())
        for name, text in also.items():
            write_text(run.path / name, text)
    # on resuming, too: a run that was killed at its very start may lack them
    run.checkpoints.mkdir(exist_ok=True)
    write_text(run.split, prepared.table)
    if prepared.dataset.bad:
        write_text(run.bad_files, bad_table(prepared.dataset.bad))
    # the last: where it is, the run knows which files it left out
    write_text(run.split_sha256, f"{facts['split']}  split.csv\n")
    if not (trained and run.environment.is_file()):
        run.write_environment(
            device=describe_device(device), data_sha256=facts["data"], masks_sha256=facts["masks"], job=job()
        )


def _preprocessing(training: Training, config: Config) -> dict[str, Any]:
    size = required(config.views.large_size)
    return Preprocessing.of(size, training.plan.mean_3, training.plan.std_3).as_json()


def _end_feed(feed: Feed, say: Say) -> None:
    feed.close()
    _say_incidents(feed, say)
    for problem in sorted(feed.unreadable)[:10]:
        say(problem if problem.endswith(ABSENT) else f"{problem}: a grey image stood for it")


def _say_incidents(feed: Feed, say: Say) -> None:
    while feed.incidents:
        say(feed.incidents.pop(0))


def _exhibit(training: Training, run: RunDirectory, prepared: Prepared, say: Say) -> None:
    """Something to look at; the run is done, and does not fail for want of it."""
    try:
        write_exhibit(run, training, prepared.config, prepared.dataset)
    except (OSError, RunError, torch.OutOfMemoryError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        say(f"{run.path / FOLDER} could not be written ({why}); the run itself is complete")


def _device_of(config: Config, given: torch.device | None) -> torch.device:
    device = given or choose_device(config.device)
    require_precision(config.precision, device)
    return device


def _announce(training: Training, console: Console, *, resume: bool) -> None:
    if resume:
        console.print(f"going on from step {training.state.step} of {training.total_steps}", highlight=False)
    if training.speed == "compile":
        console.print(
            "compiling: the first steps take a minute or more (--speed graph avoids it)", highlight=False
        )


def _loop_(
    training: Training,
    run: RunDirectory,
    prepared: Prepared,
    facts: dict[str, Any],
    progress: ProgressReport,
    say: Say,
    aloud: Say,
    hint: str,
) -> int:
    config, dataset, ranks = prepared.config, prepared.dataset, training.ranks
    num_images, plan, start = len(dataset.labels_M), training.plan, training.state.step
    size = required(config.views.large_size)
    tally = Tally(dataset.hidden, config.num_ballots, training.device)
    with ExitStack() as stack:
        curves, writer = None, None
        if ranks.main:
            writer = stack.enter_context(Writer(run, keep=config.keep_checkpoints, say=say))
            curves = stack.enter_context(Curves(run.path, start, say))

        def report(row: dict[str, Any]) -> None:
            progress.report(row)
            _say_incidents(training.feed, aloud)
            if curves is not None:
                curves.write(row)

        def show() -> None:
            if curves is not None:
                with suppress(RunError, torch.OutOfMemoryError):  # a picture is no reason to end a run
                    picture = positives_sheet(training, config, dataset)
                    curves.show("semantic positives", picture, training.state.step)

        sheets = curves is not None and training.state.queue is not None and config.sheet_every > 0
        stack.enter_context(progress)
        return Loop(
            training=training,
            recovery=Recovery(training, run, dataset.names, tally, say),
            tally=tally,
            probe=Probe(dataset, plan.mean_3, plan.std_3, size, plan.autocast, ranks=ranks),
            cadence=Cadence(
                log=required(config.log_every),
                probe=config.steps_of(config.probe_every, num_images),
                checkpoint=config.steps_of(config.checkpoint_every, num_images),
                sheet=config.steps_of(config.sheet_every, num_images) if sheets else 0,
            ),
            writer=writer,
            facts=facts,
            advance=progress.advance,
            report=report,
            hint=hint,
            show=show,
        ).run_()
