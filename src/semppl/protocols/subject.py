"""The run under evaluation: its weights, its data and its labels, found again and checked."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from torch import Tensor

from semppl.config import Config, stored_config
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, environment
from semppl.data.dataset import Dataset
from semppl.data.robustness import Found
from semppl.data.splits import digest, split_table
from semppl.data.transfer import Transfer
from semppl.evaluate.metrics import Metrics, measure_answers
from semppl.nets.heads import Projected
from semppl.nets.initialise import undrawn
from semppl.protocols.desk import Desk
from semppl.protocols.relabel import require_unseen, with_labels
from semppl.protocols.scored import weakest
from semppl.protocols.sets import find_families, find_transfers
from semppl.protocols.settings import EvaluateFlags, from_scratch
from semppl.protocols.store import FeatureStore
from semppl.protocols.task import Labels, Task, build_labels, build_task
from semppl.train.build import build_networks
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint, required_checkpoint
from semppl.train.device import choose_device, describe_device
from semppl.train.prepare import load_for
from semppl.train.ranks import ALONE, Ranks
from semppl.train.state import has_projector, load_online_
from semppl.views.preprocessing import Preprocessing

FEATURES: Final = "features"


@dataclass(frozen=True)
class Subject:
    """A trained network at its desk."""

    run: RunDirectory
    desk: Desk
    online: Projected
    flags: EvaluateFlags
    facts: Mapping[str, Any]
    """Where a number comes from: run, checkpoint, split, seeds, software."""
    projected: bool = True
    """Whether the weights have a projector; imported ones may lack it."""
    resumable: bool = False
    """Whether trainings leave bookmarks in the run directory (`protocols/unfinished.py`)."""

    @property
    def classes(self) -> int:
        """How many the data has."""
        return len(self.desk.dataset.classes)

    def marked(self, logits_NY: Tensor) -> Metrics:
        """Answers to the exam of the run; says which classes are the weakest."""
        truth_N = self.task.truth_N
        metrics = measure_answers(logits_NY, truth_N, classes=self.classes, seed=self.flags.seed)
        if worst := weakest(metrics, self.desk.dataset.classes):
            self.desk.say(f"weakest classes: {worst}")
        return metrics

    @cached_property
    def task(self) -> Task:
        """Which labels classifiers get, and what of the run's own data they are marked on."""
        flags = self.flags
        return build_task(self.desk.dataset, which=flags.labels, share=flags.validation, seed=flags.seed)

    @cached_property
    def labels(self) -> Labels:
        """Which labels classifiers get that are marked on other data."""
        flags = self.flags
        return build_labels(self.desk.dataset, which=flags.labels, share=flags.validation, seed=flags.seed)

    @cached_property
    def families(self) -> list[Found]:
        """Data sets for robustness."""
        return find_families(self.flags)

    @cached_property
    def transfers(self) -> list[Transfer]:
        """Data sets to transfer to."""
        return find_transfers(self.flags)


def require_run(run: RunDirectory) -> None:
    """Refuse any other folder, and what is only a copy for tables."""
    if not run.exists:
        raise UserError(
            f"{run.path} holds no run (no {run.config.name}): give a folder that pretrain or fit wrote"
        )
    run.require_no_copy()


def _moved(config: Config, flags: EvaluateFlags) -> Config:
    """With the places where things lie now."""
    given = config.data
    data = replace(
        given,
        workers=given.workers if flags.workers is None else flags.workers,
        labels=given.labels if flags.table is None else str(flags.table),
        test=given.test if flags.test is None else str(flags.test),
        root=given.root if flags.data_root is None else str(flags.data_root),
    )
    source = flags.data or config.source
    return replace(config, source=source, device=flags.device, precision=flags.precision, data=data)


def _announce(path: Path, step: int, config: Config, dataset: Dataset, console: Console) -> None:
    total = config.total_steps(len(dataset.labels_M))
    unfinished = "" if step >= total else f": not finished, {total:,} are planned"
    console.print(f"{path}: step {step:,}{unfinished}", highlight=False, soft_wrap=True)


def _network(
    config: Config, state: Mapping[str, Any], flags: EvaluateFlags, file: Path | None, device: torch.device
) -> tuple[Projected, bool]:
    """The network that is asked for, and whether its projector is its own; without a file, as it began."""
    if file is None:
        return build_networks(config, device)[0], True
    if (weights := state[flags.network]) is None:
        raise UserError(f"{file}: holds no target network: leave --network out")
    # weights come from the checkpoint, so none need to be had from elsewhere
    own = replace(config, net=replace(config.net, pretrained=False))

    def create() -> Projected:
        return build_networks(own, device)[0]

    online = undrawn(create) if has_projector(weights) else create()
    try:
        return online, load_online_(online, weights)
    except RuntimeError as error:
        raise UserError(f"{file}: its weights do not fit the network of the run's config.yaml") from error


def _checkpoint(
    run: RunDirectory, flags: EvaluateFlags, console: Console
) -> tuple[Path | None, Mapping[str, Any]]:
    """The one asked for, or the newest that is sound; where no weights are needed there may be none."""
    if flags.checkpoint is not None:
        return flags.checkpoint, load_checkpoint(flags.checkpoint)
    if from_scratch(flags) and newest_checkpoint(run) is None and (known := _without_weights(run)):
        return None, known
    return required_checkpoint(run, partial(console.print, highlight=False, soft_wrap=True))


def _without_weights(run: RunDirectory) -> Mapping[str, Any] | None:
    """What other files of a run know of what a checkpoint holds; None where they do not know enough."""
    try:
        split, facts = run.split_sha256.read_text().split()[0], json.loads(run.environment.read_text())
        return {"split": split, "data": facts["data_sha256"], "state": {"step": 0}}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def load_subject(
    path: Path,
    flags: EvaluateFlags,
    console: Console,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
) -> Subject:
    """Read a run; its data must be what it was trained on. `device` is that of this rank."""
    run = RunDirectory(path)
    require_run(run)
    device = device or choose_device(flags.device)
    config = _moved(stored_config(run.config), flags)
    if flags.precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs")
    file, content = _checkpoint(run, flags, console)
    imported = content["split"] is None
    config, dataset = _data(
        path,
        config,
        flags,
        content,
        lambda name, of: ranks.one_after_first(
            name, lambda: load_for(of, device, console, masks=False, run=None if imported else run)
        ),
    )
    if not imported:
        _announce(path, content["state"]["step"], config, dataset, console)
    online, projected = _network(config, content["state"], flags, file, device)
    facts = {
        "run": run.path.name,
        "data": dataset.name,
        "data_sha256": dataset.fingerprint,
        "classes": list(dataset.classes),
        "split_sha256": digest(split_table(dataset)),
        "checkpoint": file and file.name,
        "checkpoint_sha256": file and _sha256(file),
        "step": content["state"]["step"],
        "network": flags.network,
        "run_seed": config.seed,
        "environment": environment() | {"device": describe_device(device)},
    }
    if imported:
        facts["origin"] = content["origin"]
    store = FeatureStore(run.path / FEATURES, ranks) if flags.cache else None
    stored = content.get("preprocessing")
    how = stored and Preprocessing.from_json(stored)
    desk = Desk(config, dataset, device, console, store, how, ranks)
    if flags.preprocessing != "own":
        desk = replace(desk, given=replace(desk.preprocessing, crop=flags.preprocessing))
    desk.regret({*dataset.unreadable.values()})
    facts["preprocessing"] = desk.preprocessing.as_json()
    return Subject(run, desk, online, flags, facts, projected)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def _data(
    path: Path,
    config: Config,
    flags: EvaluateFlags,
    content: Mapping[str, Any],
    load: Callable[[str, Config], Dataset],
) -> tuple[Config, Dataset]:
    """The run's own data, with the labels that are asked for, and the configuration that says so."""
    imported = content["split"] is None
    asked = with_labels(config, flags, imported=imported)
    if imported:
        if not config.source:
            raise UserError(f"{path}: imported weights come without data: say which images, with --data")
        return asked, load(str(path), asked)
    others = asked != with_labels(config, EvaluateFlags())
    if others:
        require_unseen(path, config, flags)
    dataset = load(str(path), config)
    _require_same(path, digest(split_table(dataset)), dataset.fingerprint, content)
    if others:
        dataset = load(f"{path}, other labels", asked)
        _require_images(path, dataset.fingerprint, content)
    return asked, dataset


def _require_same(path: Path, split: str, fingerprint: str, content: Mapping[str, Any]) -> None:
    if split != content["split"]:
        raise UserError(f"{path}: its data has changed (see split.csv): give the same, with --data")
    _require_images(path, fingerprint, content)


def _require_images(path: Path, fingerprint: str, content: Mapping[str, Any]) -> None:
    if fingerprint != content["data"]:
        raise UserError(f"{path}: the images are not those that it was trained on: give these, with --data")
