"""Going on with a run: is it the same one, from where, and was this job restarted?"""

import json
import os
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from semppl.config import Config, from_yaml, stored_config
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.data.masks import OWN_MASKS
from semppl.differing import differences
from semppl.train.build import Training
from semppl.train.checkpoint import Say, newest_checkpoint, sound_checkpoint

_RESTARTS: Final = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")


def require_same_run(config: Config, run: RunDirectory, facts: dict[str, Any]) -> None:
    """Refuse other values, another split."""
    stored, config = (_same_numbers(each) for each in (stored_config(run.config), config))
    if changed := differences(stored, config):
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


def resume_(training: Training, run: RunDirectory, facts: dict[str, Any], say: Say) -> bool:
    """Go on from the newest checkpoint that is sound; a run killed before its first one starts again. Gives
    whether there was one.

    The number of ranks may be another: a checkpoint knows nothing of them.
    """
    found = sound_checkpoint(run, say)
    if found is not None:
        if found.content["split"] != facts["split"]:
            raise UserError(f"{found.path} was written with another split: start a new run")
        if found.content["data"] != facts["data"]:
            raise UserError(f"the images are not those that {found.path} was trained on: start a new run")
        # runs from before masks were looked at so closely do not say which they had
        if found.content.get("masks", facts["masks"]) != facts["masks"]:
            raise UserError(
                f"the masks in {_masks_place(facts)} are not those that {found.path} was trained with: "
                "bring those back (by --masks FOLDER if they lie elsewhere), or start a new run"
            )
        training.state.load_state_dict_(found.content["state"])
    if training.ranks.main:
        run.forget_metrics_after_(training.state.step)
    return found is not None


def _masks_place(facts: dict[str, Any]) -> str:
    """The folder, or the file that brings its own."""
    config = from_yaml(facts["config"])
    return config.source if config.data.masks in (None, OWN_MASKS) else config.data.masks


def require_same_step(training: Training, run: RunDirectory) -> None:
    """Where a machine has a folder of its own, its ranks find other checkpoints, or none."""
    if len(set(training.ranks.of_all(training.state.step))) > 1:
        raise UserError(f"ranks find different checkpoints in {run.path}: all machines must see that folder")


def job() -> list[str]:
    """What a cluster and torchrun call this job, the same after a restart; nothing by hand."""
    names = []
    if slurm := os.environ.get("SLURM_JOB_ID"):
        names.append(f"slurm {slurm}")
    if elastic := os.environ.get("TORCHELASTIC_RUN_ID"):
        # by default the word "none": the process that started us is unique
        names.append(f"torchrun {elastic} {socket.gethostname()} {os.getppid()}")
    return names


def restarted(run: RunDirectory) -> bool:
    """Whether this very job has begun the run and was started again: then it goes on, whatever the command
    says.
    """
    again = any(int(os.environ.get(name, "0")) for name in _RESTARTS)
    if not run.exists:
        return False
    if not run.environment.exists():  # killed at its very start: there is nothing to lose
        return again and newest_checkpoint(run) is None
    with suppress(OSError, ValueError):
        began = json.loads(run.environment.read_text()).get("job") or ()
        # torchrun does not count a restart after which there are more or fewer machines, and never runs two
        # commands; an allocation may run several, one after the other
        return any(name in began and (again or name.startswith("torchrun")) for name in job())
    return False
