"""What the process of a cell does: pre-train or go on, then evaluate. All it says goes to the cell's log."""

import sys
from dataclasses import replace

import torch
from rich.console import Console

from semppl.ablate.cell import LOG, Cell, evaluation_flags
from semppl.ablate.log import speak_into
from semppl.config import Config, to_yaml
from semppl.core.cores import usable_cores
from semppl.protocols.run import run_evaluate
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
        run_evaluate([run.path], evaluation_flags(config), console)


def threads_for(jobs: int) -> int:
    """Of one cell: all share the cores, or fewer where OMP_NUM_THREADS says so; to be asked before a process
    has set its own number.
    """
    return max(min(usable_cores(), torch.get_num_threads()) // jobs, 1)


def placed(config: Config, slot: int, jobs: int) -> Config:
    """Where a cell runs: cells at a time take turns over the GPUs and share the processes that read files."""
    if config.device == "auto" and torch.cuda.device_count() > 1:
        config = replace(config, device=f"cuda:{slot % torch.cuda.device_count()}")
    if config.data.workers is None and jobs > 1:
        workers = max(choose_workers(config, choose_device(config.device)) // jobs, 1)
        config = replace(config, data=replace(config.data, workers=workers))
    return config
