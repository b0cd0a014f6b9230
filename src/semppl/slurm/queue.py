"""A command becomes a job. Only for who has submitit."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from submitit import AutoExecutor, Job
from submitit.helpers import clean_env

from semppl.core.errors import UserError
from semppl.slurm.settings import SlurmFlags
from semppl.slurm.task import NOTICE, Task

# a run that still is not done has made no progress
_TIME_LIMITS: Final = 100


def enqueue(
    flags: SlurmFlags, command: Sequence[str], folder: Path, name: str, cluster: str = "slurm"
) -> Job[None]:
    """Submit; logs go to the folder. Other clusters are those of submitit, such as local."""
    with _left_as_it_was(folder):
        executor = AutoExecutor(folder, cluster=cluster, slurm_max_num_timeout=_TIME_LIMITS)
        executor.update_parameters(
            name=name,
            nodes=flags.slurm_nodes,
            tasks_per_node=flags.tasks,
            gpus_per_node=flags.slurm_gpus or None,
            cpus_per_task=flags.slurm_cpus,
            timeout_min=math.ceil(60 * flags.slurm_hours),
            stderr_to_stdout=True,
            slurm_partition=flags.slurm_partition,
            slurm_account=flags.slurm_account,
            slurm_signal_delay_s=NOTICE,
            # since SLURM 22.05 a step has one core for each task unless it is told otherwise
            slurm_srun_args=[f"--cpus-per-task={flags.slurm_cpus}"],
            slurm_additional_parameters={"requeue": True},
        )
        # what a job tells its processes would confuse a job that is submitted by one of them
        with clean_env() if "SLURM_JOB_ID" in os.environ else nullcontext():
            return executor.submit(Task(command))


@contextmanager
def _left_as_it_was(folder: Path) -> Iterator[None]:
    """Where nothing is submitted, nothing stays."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    before = set(folder.iterdir()) if folder.is_dir() else set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, RuntimeError) as error:
        with suppress(OSError):
            for each in set(folder.iterdir()) - before:
                each.unlink()
            for each in made:
                each.rmdir()
        lines = [line.removeprefix("sbatch: error: ").strip() for line in str(error).splitlines()]
        raise UserError(f"the job could not be submitted: {'; '.join(filter(None, lines))}") from error
