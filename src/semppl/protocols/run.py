"""The verb `evaluate`: runs × protocols → tables and files."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from semppl.core.rundir import RunDirectory
from semppl.protocols.corruption import corruptions
from semppl.protocols.finetuning import finetune
from semppl.protocols.frozen import knn, linear, linear_sgd
from semppl.protocols.results import Outcome, require_free, result_file, show_outcome, write_outcome
from semppl.protocols.robustness import robustness
from semppl.protocols.settings import EvaluateFlags, check_flags, wanted_protocols
from semppl.protocols.subject import Subject, load_subject
from semppl.protocols.transfer import transfer

TABLE: Final[Mapping[str, Callable[[Subject], Outcome]]] = {
    "knn": knn,
    "linear": linear,
    "linear-sgd": linear_sgd,
    "finetune": finetune,
    "corruptions": corruptions,
    "robustness": robustness,
    "transfer": transfer,
}


def run_evaluate(paths: Sequence[Path], flags: EvaluateFlags, console: Console) -> None:
    """Measure each run by each protocol; a result is written as soon as it is there."""
    check_flags(flags)
    protocols = wanted_protocols(flags)
    files = {
        (path, name): result_file(RunDirectory(path), name, flags.name)
        for path in paths
        for name in protocols
    }
    require_free(files.values(), overwrite=flags.overwrite)
    for path in paths:
        subject = load_subject(path, flags, console)
        for name in protocols:
            start = time.monotonic()
            outcome = TABLE[name](subject)
            seconds = round(time.monotonic() - start, 1)
            facts = {**subject.facts, "seconds": seconds, "flags": asdict(flags)}
            if name != "transfer":
                facts |= subject.task.as_json()
            write_outcome(files[path, name], outcome, facts)
            show_outcome(console, f"{path.name}: {name}", outcome)
            subject.desk.say(f"kept in {files[path, name]}")
