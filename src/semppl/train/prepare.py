"""What a run starts from: its data read, its configuration filled in, all of it checked."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from semppl.config import Config, from_yaml, stored_config, to_yaml
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.data.dataset import Dataset
from semppl.data.masks import NO_MASKS, OWN_MASKS
from semppl.data.request import Request
from semppl.data.scan import read_bad_table
from semppl.data.source import load_dataset
from semppl.data.splits import digest, split_table
from semppl.differing import decisive
from semppl.nets.pretrained import fitting_size, own_size
from semppl.resolve import resolved
from semppl.train.device import memory_for_pixels
from semppl.train.objectives import uses_queue
from semppl.train.progress import Stages
from semppl.train.ranks import Ranks
from semppl.train.resume import require_same_run
from semppl.train.start import Start, read_start, with_network_of


def load_for(
    config: Config,
    device: torch.device,
    console: Console | None = None,
    *,
    masks: bool = True,
    run: RunDirectory | None = None,
) -> Dataset:
    """The data of a run, with the labels that it may see; the console shows how far it is.

    Masks are for training: whoever looks at a run afterwards needs none, and they may be gone. A `run` that
    has begun left out the files that it says, and no others: which ones are found depends on what is read.
    """
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
            masks=data.masks if masks and config.saliency.probability else NO_MASKS,
            damaged=left_out(run),
            advance=stages.advance,
        )
        return load_dataset(request)


def left_out(run: RunDirectory | None) -> dict[str, str] | None:
    """Names of the files that a run has left out, and why; None before it has begun."""
    return None if run is None or not run.split_sha256.is_file() else read_bad_table(run.bad_files)


def resolved_for(config: Config, dataset: Dataset) -> Config:
    """Every choice that the data decides, or the encoder: one of timm with its own weights sees images as
    they did.
    """
    encoder = config.net.encoder or ""
    own = own_size(encoder) if config.net.pretrained else None
    return resolved(
        replace(config, data=replace(config.data, masks=_masks_of(config, dataset))),
        image_size=own or dataset.size,
        num_images=len(dataset.labels_M),
        num_classes=len(dataset.classes),
        fitting=partial(fitting_size, encoder),
    )


def _masks_of(config: Config, dataset: Dataset) -> str:
    """Whose masks are used: a folder by its full path, so that a run goes on from any other."""
    given = config.data.masks
    if given is None:
        return dataset.masks_place or (NO_MASKS if dataset.masks_MHW is None else OWN_MASKS)
    return given if given in (NO_MASKS, OWN_MASKS) else str(Path(given).absolute())


def announce_data(dataset: Dataset, console: Console) -> None:
    """What was found."""
    for line in (dataset.describe(), *dataset.notes):
        console.print(line, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Prepared:
    """Everything that was given, read and checked."""

    config: Config
    dataset: Dataset
    start: Start | None
    table: str
    facts: dict[str, Any]


def prepared_for(
    config: Config,
    run: RunDirectory,
    device: torch.device,
    console: Console,
    dataset: Dataset | None,
    init_from: Path | None,
    ranks: Ranks,
    *,
    resume: bool,
) -> Prepared:
    """Read the data, and fill in what it decides."""
    start = read_start(init_from)
    config = with_network_of(config, start)
    if resume and config.data.masks is None:
        # a run goes on as it began, whatever lies beside its data by now
        masks = stored_config(run.config).data.masks
        config = replace(config, data=replace(config.data, masks=masks))
    if dataset is None:
        dataset = ranks.one_after_first(
            "data", lambda: load_for(config, device, console, run=run if resume else None)
        )
        announce_data(dataset, console)
    config = resolved_for(config, dataset)
    table = split_table(dataset)
    facts: dict[str, Any] = {
        "config": to_yaml(config),
        "split": digest(table),
        "data": dataset.fingerprint,
        "masks": dataset.masks_fingerprint,
    }
    if resume:
        require_same_run(config, run, facts)
    return Prepared(config, dataset, start, table, facts)


def require_same_everywhere(ranks: Ranks, facts: dict[str, Any]) -> None:
    """Machines that see other files would train on other batches and not notice."""
    mine = {"split": facts["split"], "images": facts["data"], "masks": facts["masks"]}
    mine |= decisive(from_yaml(facts["config"]))
    main = ranks.from_main(mine)
    if odd := [name for name in mine if main.get(name) != mine[name]]:
        raise UserError(
            f"rank {ranks.share.rank} differs from the main one in {', '.join(odd)}: all machines must see "
            "the same files and be given the same flags"
        )
