"""The verb `evaluate`: runs × protocols → tables and files."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console

from semppl.core.rundir import RunDirectory
from semppl.protocols.corruption import corruptions
from semppl.protocols.finetuning import finetune
from semppl.protocols.frozen import knn, linear, linear_sgd
from semppl.protocols.results import Outcome, require_free, result_file, show_outcome, write_outcome
from semppl.protocols.robustness import check_robustness, robustness
from semppl.protocols.settings import EvaluateFlags, check_flags, wanted_protocols
from semppl.protocols.store import content_digest
from semppl.protocols.subject import Subject, load_subject, require_run
from semppl.protocols.supervised import supervised
from semppl.protocols.task import Labels
from semppl.protocols.transfer import transfer
from semppl.protocols.unfinished import forget_
from semppl.train.interrupt import Interrupted
from semppl.train.ranks import Ranks, joined

# seconds that ranks wait for the main one, which may have a million files to look at
_PATIENCE: Final = 86_400.0

TABLE: Final[Mapping[str, Callable[[Subject], Outcome]]] = {
    "knn": knn,
    "linear": linear,
    "linear-sgd": linear_sgd,
    "finetune": finetune,
    "supervised": supervised,
    "corruptions": corruptions,
    "robustness": robustness,
    "transfer": transfer,
}


# what may be missing of what the user gave, found out before anything is measured
CHECKS: Final[Mapping[str, Callable[[Subject], object]]] = {
    "robustness": check_robustness,
    "transfer": lambda subject: subject.transfers,
}


def run_evaluate(
    paths: Sequence[Path], flags: EvaluateFlags, console: Console
) -> dict[Path, dict[str, Outcome]]:
    """Measure each run by each protocol, on all ranks that torchrun started."""
    with joined(flags.device, _PATIENCE) as (ranks, device):
        return _evaluated(paths, flags, console if ranks.main else Console(quiet=True), ranks, device)


def _evaluated(
    paths: Sequence[Path], flags: EvaluateFlags, console: Console, ranks: Ranks, device: torch.device
) -> dict[Path, dict[str, Outcome]]:
    """A result is shown and written as soon as it is there."""
    check_flags(flags)
    protocols = wanted_protocols(flags)
    runs = {path: RunDirectory(path) for path in paths}
    for run in runs.values():
        require_run(run)
        files = [result_file(run, name, flags.name) for name in protocols]
        ranks.together(partial(require_free, files, overwrite=flags.overwrite))
    found: dict[Path, dict[str, Outcome]] = {}
    for path in runs:
        subject = ranks.together(partial(load_subject, path, flags, console, ranks, device))
        subject = replace(subject, resumable=True)
        for name in CHECKS.keys() & set(protocols):
            CHECKS[name](subject)
        found[path] = {}
        for name in protocols:
            try:
                found[path][name] = _measured(subject, name)
            except Interrupted as error:
                hint = _goes_on(path, name, flags, anything=any(found.values()))
                raise Interrupted(f"{error}: {hint}", error.signum) from error
    return found


def _measured(subject: Subject, name: str) -> Outcome:
    desk, start = subject.desk, time.monotonic()
    outcome = _worded(TABLE[name](subject), name, subject)
    show_outcome(desk.console, f"{subject.run.path.name}: {name}", outcome)
    file = result_file(subject.run, name, subject.flags.name)
    if desk.ranks.main:
        write_outcome(file, outcome, _facts(subject, name, time.monotonic() - start))
        forget_(subject, name)
    desk.say(f"kept in {file}")
    return outcome


def _goes_on(path: Path, name: str, flags: EvaluateFlags, *, anything: bool) -> str:
    """Results that this call has kept would stand in the way of the same call."""
    if not anything or flags.overwrite:
        return "the same command goes on"
    protocols = wanted_protocols(flags)
    left = " ".join(protocols[protocols.index(name) :])
    return f"the same command with what is left, {path} --protocol {left}, goes on"


def _worded(outcome: Outcome, name: str, subject: Subject) -> Outcome:
    """With a word on which network it is and what is seen of an image, where that is unusual."""
    words = [outcome.protocol]
    if subject.flags.network == "target" and name != "supervised":
        words.append("of the target network")
    if subject.desk.preprocessing.crop == "deepmind" and name != "transfer":
        words.append("images cut and resized as DeepMind's evaluation did")
    return replace(outcome, protocol="; ".join(words))


def _facts(subject: Subject, protocol: str, seconds: float) -> dict[str, Any]:
    """What is needed to trust the numbers of a protocol."""
    facts = {**subject.facts, "seconds": round(seconds, 1), "flags": asdict(subject.flags)}
    facts["unreadable_files"] = sorted(subject.desk.unreadable)
    if protocol == "robustness":
        facts["labels"] = _labels(subject, subject.labels)
    elif protocol != "transfer":
        exam, store = subject.task.exam, subject.desk.store
        digest = content_digest if store is None else store.digest
        facts["labels"] = _labels(subject, subject.task.labels)
        facts["test"] = {"kind": exam.kind, "images": len(exam), "sha256": digest(exam.images)}
    return facts


def _labels(subject: Subject, labels: Labels) -> dict[str, Any]:
    """How many a classifier got, and which split gave them."""
    split = {"split_sha256": subject.facts["split_sha256"]} if labels.which == "given" else {}
    return {**labels.as_json(), **split}
