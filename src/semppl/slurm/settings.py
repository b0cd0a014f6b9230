"""The flags of `semppl pretrain --slurm`. No torch here."""

from dataclasses import dataclass, fields
from typing import Final

from semppl.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class SlurmFlags:
    """Train in a job of a SLURM cluster; see docs/scale.md."""

    slurm: bool = False
    """Submit this command as a job and return at once; needs the extra semppl[slurm]."""
    slurm_nodes: int = 1
    """Machines."""
    slurm_gpus: int = 8
    """GPUs of each machine; 0: train on the CPU."""
    slurm_tasks: int | None = None
    """Processes on each machine; by default one for each GPU, or one."""
    slurm_cpus: int = 10
    """Cores of each process."""
    slurm_hours: float = 24.0
    """Time limit of the job. A run that needs longer is queued again and goes on by itself."""
    slurm_partition: str | None = None
    """By default the cluster's own."""
    slurm_account: str | None = None
    """Who pays; by default the cluster's choice."""

    @property
    def tasks(self) -> int:
        """Processes on each machine."""
        return self.slurm_tasks or self.slurm_gpus or 1

    @property
    def world(self) -> int:
        """Processes of the job."""
        return self.slurm_nodes * self.tasks


_LEAST: Final = {"slurm_nodes": 1, "slurm_gpus": 0, "slurm_tasks": 1, "slurm_cpus": 1}
# SLURM's signal comes three minutes before the end, and a run needs some to begin
_HOURS: Final = (0.1, 24.0 * 365)


def wanted(flags: SlurmFlags) -> bool:
    """Whether a job is asked for, with numbers that can be meant."""
    if not flags.slurm:
        for field in fields(flags):
            if getattr(flags, field.name) != field.default:
                raise UserError(f"{_flag(field.name)} says how a job runs: give --slurm, too")
        return False
    for name, least in _LEAST.items():
        value = getattr(flags, name)
        if value is not None and value < least:
            raise UserError(f"{_flag(name)} is {value}: it must be at least {least}")
    low, high = _HOURS
    if not low <= flags.slurm_hours <= high:
        raise UserError(f"--slurm-hours is {flags.slurm_hours:g}: it must be from {low:g} to {high:g}")
    return True


def without_slurm(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The words of the same command without a job, and those about the job. The parser has taken them all."""
    valued = {_flag(field.name) for field in fields(SlurmFlags)} - {"--slurm"}
    rest: list[str] = []
    mine: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        name = name.replace("_", "-")
        if name in valued:
            mine += [word] if equals else [word, next(words)]
        else:
            (mine if name in ("--slurm", "--no-slurm") else rest).append(word)
    return rest, mine


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
