"""Other labels than the run's own, for a run whose training saw none.

Pre-training without labels costs the same whatever their number, so one run stands for every number of them.
The labels are drawn as `pretrain` draws them, and all others stay withheld.
"""

from dataclasses import replace
from pathlib import Path

from semppl.config import Config
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.settings import EvaluateFlags, from_scratch
from semppl.train.objectives import uses_queue


def with_labels(config: Config, flags: EvaluateFlags, *, imported: bool = False) -> Config:
    """With the choice of labels that the flags ask for in place of the run's own.

    A list of names is such a choice, too; beside imported weights it is the user's, and not replaced.
    """
    per_class, fraction, data = flags.labels_per_class, flags.label_fraction, config.data
    if per_class is not None or fraction is not None:
        listed = not imported and data.labels is not None and data.labels.endswith(".txt")
        labels = None if listed else data.labels
        data = replace(data, labels=labels, labels_per_class=per_class, label_fraction=fraction)
    elif flags.split_seed is not None and data.labels_per_class is None and data.label_fraction is None:
        raise UserError(
            f"--split-seed {flags.split_seed} draws labels: say how many, with --labels-per-class N"
        )
    seed = config.split_seed if flags.split_seed is None else flags.split_seed
    return replace(config, data=replace(data, split_seed=seed))


def require_unseen(path: Path, config: Config, flags: EvaluateFlags) -> None:
    """Refuse other labels for a run that trained on its own: images whose label it saw would be in the test
    as if it had not.

    What is trained from random weights may have any labels but those that the run holds out.
    """
    data = config.data
    if data.validation:
        raise UserError(
            f"{path}: it holds labels out for validation, which other labels would let into training: leave "
            "--labels-per-class, --label-fraction and --split-seed out, or train without --validation"
        )
    if from_scratch(flags):
        return
    own = RunDirectory(path).checkpoints.resolve()
    if flags.checkpoint is not None and flags.checkpoint.resolve().parent != own:
        raise UserError(
            f"--checkpoint {flags.checkpoint}: it is not of {path}, so what labels it saw is not known: "
            "leave --labels-per-class, --label-fraction and --split-seed out"
        )
    if RunDirectory(path).started_from.is_file():
        raise UserError(
            f"{path}: it started from other weights (started_from.json), and what labels these saw is not "
            "known: leave --labels-per-class, --label-fraction and --split-seed out, or train without "
            "--init-from"
        )
    if uses_queue(config.method) or data.labelled_fraction is not None or data.balance_labels:
        raise UserError(
            f"{path}: its training saw labels, so others would be tested on what it has seen: pretrain with "
            "these labels, or with none (--method.positives 0, and no --data.labelled-fraction)"
        )
