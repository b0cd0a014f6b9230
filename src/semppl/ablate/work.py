"""What the process of a cell does: pre-train or go on, then evaluate. All it says goes to the cell's log."""

import sys
from dataclasses import replace

import torch
from rich.console import Console

from semppl.ablate.cell import LOG, PROTOCOLS, Cell
from semppl.ablate.log import speak_into
from semppl.config import Config, to_yaml
from semppl.core.cores import usable_cores
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.train.device import choose_device, choose_workers
from semppl.train.pretrain import pretrain


def work(cell: Cell, slot: int, jobs: int) -> None:
    """A run that is there already goes on; `slot` says which of the `jobs` at a time this is."""
    run = cell.run
    with run.locked():
        if not run.exists:
            run.prepare_(to_yaml(cell.config), overwrite=False)
        speak_into(cell.path / LOG)
        torch.set_num_threads(threads_for(jobs))
        config = placed(cell.config, slot, jobs)
        console = Console(file=sys.stdout, width=120, markup=False)
        pretrain(config, run, console=console, resume=True, title=cell.name, hint="the same command goes on")
        flags = EvaluateFlags(
            protocol=PROTOCOLS,
            device=config.device,
            precision=config.precision,
            workers=config.data.workers,
            overwrite=True,
        )
        run_evaluate([run.path], flags, console)


def threads_for(jobs: int) -> int:
    """Of one cell: all share the cores."""
    return max(usable_cores() // jobs, 1)


def placed(config: Config, slot: int, jobs: int) -> Config:
    """Where a cell runs: cells at a time take turns over the GPUs and share the processes that read files."""
    if config.device == "auto" and torch.cuda.device_count() > 1:
        config = replace(config, device=f"cuda:{slot % torch.cuda.device_count()}")
    if config.data.workers is None and jobs > 1:
        workers = max(choose_workers(config, choose_device(config.device)) // jobs, 1)
        config = replace(config, data=replace(config.data, workers=workers))
    return config
