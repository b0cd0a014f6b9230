"""`semppl pretrain … --slurm`: all that can be checked here is, then the command waits in the queue."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import torch
from rich.console import Console

from semppl.config import Config, files_of
from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.data.torchvision import is_torchvision_name
from semppl.nets.encoder import create_encoder
from semppl.slurm.settings import SlurmFlags, wanted, without_slurm
from semppl.train.resume import require_same_run
from semppl.train.start import read_start, with_network_of

_DEVICE: Final = re.compile(r"auto|cpu|cuda(:\d+)?")


class Wish(Protocol):
    """What the verb says about the run directory, and about the job."""

    @property
    def slurm(self) -> SlurmFlags:
        """The job."""

    @property
    def resume(self) -> bool:
        """Go on with the run."""

    @property
    def overwrite(self) -> bool:
        """Replace the run."""

    @property
    def init_from(self) -> Path | None:
        """Start from these weights."""


def submitted(
    wish: Wish,
    config: Config,
    run: RunDirectory,
    arguments: Sequence[str],
    console: Console,
    cluster: str = "slurm",
) -> bool:
    """Whether a job was asked for, which is then in the queue; `arguments` are those of the command."""
    if not wanted(wish.slurm):
        return False
    _require_cluster(cluster)
    check_job(wish.slurm, config)
    check_run(wish, config, run)
    check_data(config)
    rest, about_job = without_slurm(list(arguments))
    folder = run.path.absolute().with_name(f"{run.path.absolute().name}.slurm")
    # late, because it needs submitit
    job = import_module("semppl.slurm.queue").enqueue(
        wish.slurm, [sys.executable, "-m", "semppl", *rest], folder, f"semppl-{folder.stem}", cluster
    )
    again = shlex.join(["semppl", "pretrain", "--resume", "--out", str(run.path), *about_job])
    for line in (
        f"job {job.job_id}: {_describe(wish.slurm)}",
        f"  logs    tail -F {shlex.quote(str(job.paths.stdout))}",
        f"  watch   squeue -j {job.job_id}",
        f"  stop    scancel {job.job_id}  (writes a checkpoint first)",
        f"  go on   {again}  (only if it was stopped or failed: it is queued again by itself otherwise)",
    ):
        console.print(line, highlight=False, soft_wrap=True)
    return True


def _describe(flags: SlurmFlags) -> str:
    nodes = counted(flags.slurm_nodes, "node")
    gpus = f"{counted(flags.slurm_gpus, 'GPU')} and " if flags.slurm_gpus else ""
    return (
        f"{nodes} of {gpus}{counted(flags.tasks, 'process', 'processes')}, {flags.slurm_hours:g} h at a time"
    )


def _require_cluster(cluster: str) -> None:
    if find_spec("submitit") is None:
        raise UserError('--slurm needs submitit: pip install "semppl[slurm]"')
    if cluster == "slurm" and (
        missing := [each for each in ("sbatch", "srun") if shutil.which(each) is None]
    ):
        raise UserError(f"--slurm: there is no {missing[0]} here: submit from a machine of the cluster")
    if "RANK" in os.environ:
        raise UserError("--slurm starts all processes by itself: leave torchrun out")


def check_job(flags: SlurmFlags, config: Config) -> None:
    """Whether the job that is asked for can run this configuration."""
    gpus, tasks, device, batch = flags.slurm_gpus, flags.tasks, config.device, config.batch_size
    if not _DEVICE.fullmatch(device):
        raise UserError(f"unknown device {device!r}: use auto, cpu, cuda or cuda:N")
    if gpus and device == "cpu":
        raise UserError(
            f"--device cpu leaves {counted(gpus, 'GPU')} of each machine idle: give --slurm-gpus 0"
        )
    if not gpus and (device.startswith("cuda") or config.precision == "bf16"):
        raise UserError("--slurm-gpus 0 is for --device cpu or auto, and for --precision fp32 or auto")
    if gpus and tasks > gpus and device in ("auto", "cuda"):
        raise UserError(
            f"--slurm-tasks {tasks} are more than {counted(gpus, 'GPU')}: each process needs one of its own"
        )
    if batch is not None and batch < flags.world:
        raise UserError(f"--batch-size {batch} is too small to be shared by {flags.world} ranks")
    norm = config.net.norm_ranks
    if norm is not None and (norm < 1 or flags.world % norm):
        raise UserError(f"--net.norm-ranks {norm} does not divide {flags.world} ranks into equal groups")


def check_run(wish: Wish, config: Config, run: RunDirectory) -> None:
    """Whether the folder is free or holds the run to go on with, and the weights to start from fit."""
    if wish.resume:
        if wish.init_from is not None or wish.overwrite:
            raise UserError("--resume goes on with a run; --init-from and --overwrite start a new one")
        run.require()
        stored = run.split_sha256.read_text().split()[0] if run.split_sha256.is_file() else None
        require_same_run(config, run, {"split": stored})  # the job will look whether the split is still that
    with run.locked():
        if not wish.resume:
            run.require_free(overwrite=wish.overwrite, given=(*files_of(config), wish.init_from))
    net = with_network_of(config, read_start(wish.init_from)).net
    if net.encoder is None:
        return
    try:
        with torch.device("meta"):
            create_encoder(net.encoder, width=net.width or 1, sk=net.sk, padding=net.padding or "symmetric")
    except ValueError as error:
        raise UserError(str(error)) from error


def check_data(config: Config) -> None:
    """Whether there is something by the names that were given."""
    source, data = config.source, config.data
    known = source == "digits" or is_torchvision_name(source) is not None
    if not known and not Path(source).exists():
        raise UserError(
            f"{source}: no such data: give a folder of images, an .npz file, the name of a torchvision set "
            "or digits"
        )
    for flag, value in (("--labels", data.labels), ("--test", data.test)):
        if value is not None and not Path(value).exists():
            raise UserError(f"{flag} {value}: no such file")
