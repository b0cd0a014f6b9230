"""The verb `pretrain`: data, run directory, a new run or the rest of an old one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.utils.tensorboard import SummaryWriter

from semppl.config import Config, differences, from_yaml, required, to_yaml
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_text
from semppl.data.dataset import Dataset
from semppl.data.request import Request
from semppl.data.scan import bad_table
from semppl.data.source import load_dataset
from semppl.data.splits import digest, split_table
from semppl.data.streaming import StreamingFeed
from semppl.nets.pretrained import fitting_size, own_size
from semppl.resolve import resolved
from semppl.train.build import Training, build_training, uses_queue
from semppl.train.curves import write_curves
from semppl.train.device import choose_device, describe_device, memory_for_pixels
from semppl.train.feed import Feed
from semppl.train.loop import Cadence, run_loop_
from semppl.train.monitor import Probe, Tally
from semppl.train.progress import ProgressReport, Stages
from semppl.train.start import read_start, start_from_, with_network_of
from semppl.train.state import TrainState, load_checkpoint, newest_checkpoint
from semppl.views.preprocessing import Preprocessing

# what may differ when a run goes on: where it runs, where the data lies (its content is compared), how often
# it speaks
FREE = frozenset(
    {
        "source",
        "device",
        "precision",
        "speed",
        "log_every",
        "probe_every",
        "checkpoint_every",
        "keep_checkpoints",
        "data.labels",
        "data.test",
        "data.root",
        "data.workers",
        "data.allow_unreadable",
    }
)


def load_for(config: Config, device: torch.device, console: Console | None = None) -> Dataset:
    """The data of a run, with the labels that it may see; the console shows how far it is."""
    data = config.data
    with Stages(console or Console(quiet=True)) as stages:
        request = Request(
            source=config.source,
            labels=data.labels,
            labels_per_class=data.labels_per_class,
            label_fraction=data.label_fraction,
            validation=data.validation or 0.0,
            test=data.test,
            root=data.root,
            seed=config.split_seed,
            oracle=config.method.labels == "oracle",
            require_labels=uses_queue(config.method),
            feed=data.feed,
            memory=memory_for_pixels(device),
            workers=data.workers,
            allow_unreadable=data.allow_unreadable,
            advance=stages.advance,
        )
        return load_dataset(request)


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
) -> TrainState:
    """Train to the end. Nothing is written before everything that the user gave has been checked.

    `dataset` is the data of the configuration where the caller has read and announced it already; `also` are
    texts that a new run directory holds from its start.
    """
    if resume:
        run.require()
    if resume and (init_from is not None or overwrite):
        raise UserError("--resume goes on with a run; --init-from and --overwrite start a new one")
    device = _device_of(config)
    start = read_start(init_from)
    config = with_network_of(config, start)
    if dataset is None:
        dataset = load_for(config, device, console)
        announce_data(dataset, console)
    config = resolved_for(config, dataset)
    table = split_table(dataset)
    facts: dict[str, Any] = {"config": to_yaml(config), "split": digest(table), "data": dataset.fingerprint}
    if resume:
        _require_same_run(config, run, facts)
    training = build_training(config, dataset, device)
    how = Preprocessing.of(required(config.views.large_size), training.plan.mean_3, training.plan.std_3)
    facts["preprocessing"] = how.as_json()
    if resume:
        _resume_(training, run, facts)
    else:
        start_from_(training.state, start, console)
    _announce(training, console, resume=resume)
    if not resume:
        run.prepare_(facts["config"], overwrite=overwrite)
        _write_all(run, also or {})
    # on resuming, too: a run that was killed at its very start may lack them
    run.checkpoints.mkdir(exist_ok=True)
    _write_data(run, dataset, table, facts["split"])
    run.write_environment(device=describe_device(device), data_sha256=facts["data"])
    progress = ProgressReport(console, title, start=training.state.step, total=training.total_steps)
    hint = hint or f"go on with `semppl pretrain --resume --out {run.path}`"
    try:
        _loop_(training, run, config, dataset, facts, progress, hint)
    finally:
        _end_feed(training.feed, console)
    return training.state


def resolved_for(config: Config, dataset: Dataset) -> Config:
    """Every choice that the data decides, or the encoder: one of timm with its own weights sees images as
    they did.
    """
    encoder = config.net.encoder or ""
    own = own_size(encoder) if config.net.pretrained else None
    return resolved(
        config,
        image_size=own or dataset.size,
        num_images=len(dataset.labels_M),
        num_classes=len(dataset.classes),
        fitting=partial(fitting_size, encoder),
    )


def _write_all(run: RunDirectory, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        write_text(run.path / name, text)


def _write_data(run: RunDirectory, dataset: Dataset, table: str, sha256: str) -> None:
    write_text(run.split, table)
    write_text(run.split_sha256, f"{sha256}  split.csv\n")
    if dataset.bad:
        write_text(run.bad_files, bad_table(dataset.bad))


def _end_feed(feed: Feed, console: Console) -> None:
    if not isinstance(feed, StreamingFeed):
        return
    feed.close()
    for problem in sorted(feed.unreadable)[:10]:
        console.print(f"{problem}: a grey image stood for it", highlight=False, soft_wrap=True)


def _device_of(config: Config) -> torch.device:
    device = choose_device(config.device)
    if config.precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs: on a CPU gradients of tiny maps are not always finite")
    return device


def announce_data(dataset: Dataset, console: Console) -> None:
    """What was found."""
    for line in (dataset.describe(), *dataset.notes):
        console.print(line, highlight=False, soft_wrap=True)


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
    config: Config,
    dataset: Dataset,
    facts: dict[str, Any],
    progress: ProgressReport,
    hint: str,
) -> None:
    num_images, plan, start = len(dataset.labels_M), training.plan, training.state.step
    probe = Probe(dataset, plan.mean_3, plan.std_3, required(config.views.large_size), plan.autocast)
    tally = Tally(dataset.hidden, config.num_ballots, training.device)
    cadence = Cadence(
        log=required(config.log_every),
        probe=config.steps_of(config.probe_every, num_images),
        checkpoint=config.steps_of(config.checkpoint_every, num_images),
        keep=config.keep_checkpoints,
    )
    writer = SummaryWriter(str(run.path), purge_step=start + 1 if start else None)

    def report(row: dict[str, Any]) -> None:
        progress.report(row)
        write_curves(writer, row)

    try:
        with progress:
            run_loop_(
                training,
                run,
                facts=facts,
                names=dataset.names,
                tally=tally,
                probe=probe,
                cadence=cadence,
                advance=progress.advance,
                report=report,
                hint=hint,
            )
    finally:
        writer.close()


def _require_same_run(config: Config, run: RunDirectory, facts: dict[str, Any]) -> None:
    stored, config = (_same_numbers(each) for each in (from_yaml(run.config.read_text()), config))
    if changed := [name for name in differences(stored, config) if name not in FREE]:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise UserError(
            f"{run.path} was started with other values of {flags}: leave them out, or start a new run"
        )
    if run.split_sha256.is_file() and facts["split"] != run.split_sha256.read_text().split()[0]:
        raise UserError(
            f"{run.path} was started with another split (see {run.split}): "
            "give the same data, or start a new run"
        )


def _same_numbers(config: Config) -> Config:
    """Parts as large as the batch change no number, so a run may go on with them or without."""
    whole = config.micro_batch == config.batch_size
    return replace(config, micro_batch=None) if whole else config


def _resume_(training: Training, run: RunDirectory, facts: dict[str, Any]) -> None:
    """Go on from the newest checkpoint; a run that was killed before its first one starts again."""
    path = newest_checkpoint(run)
    if path is not None:
        content = load_checkpoint(path)
        if content["split"] != facts["split"]:
            raise UserError(f"{path} was written with another split: start a new run")
        if content["data"] != facts["data"]:
            raise UserError(f"the images are not those that {path} was trained on: start a new run")
        training.state.load_state_dict_(content["state"])
    run.forget_metrics_after_(training.state.step)
