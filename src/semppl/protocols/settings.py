"""Flags of the verb `evaluate`. No torch here, so that --help is quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from semppl.core.errors import UserError

PROTOCOLS: Final = (
    "knn",
    "linear",
    "linear-sgd",
    "finetune",
    "supervised",
    "corruptions",
    "robustness",
    "transfer",
)


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """What to measure, and how."""

    protocol: tuple[str, ...] = ("knn", "linear")
    """knn: nearest labelled images; linear: logistic regression on frozen features; linear-sgd: the same by
    the paper's SGD with crops and flips; finetune: the whole network; supervised: the same network from
    random weights, trained on the labels alone (on all images with --consistency); corruptions: a linear
    classifier on corrupted test images; robustness: the same on ImageNetV2, -C, -R and ObjectNet; transfer:
    linear classifiers on the paper's 11 data sets."""
    corrupt: bool = False
    """Add the protocol corruptions: 15 corruptions at 5 strengths, made from the test images."""
    labels: Literal["given", "all"] = "given"
    """Whose labels the classifier gets: those of the run, or the true ones of all images."""
    sweep: Literal["default", "paper"] = "default"
    """Settings among which finetune and transfer choose: a few, or all that the paper tried."""
    sets: tuple[str, ...] = ()
    """Families of robustness (imagenet-v2, imagenet-c, imagenet-r, objectnet) or data sets of transfer; by
    default all that are found."""
    root: Path | None = None
    """Where those data sets lie."""
    k: int | None = None
    """Neighbours; by default 10, or fewer where a class has few labels."""
    temperature: float = 0.1
    """Neighbours count exp(cosine / temperature)."""
    epochs: int | None = None
    """Of finetune (by default the paper's 30, or 300 steps where they are more; with --confident of its
    second training alone), of the images without a label with --consistency (60, or 1,000 steps), of
    linear-sgd (100) and of supervised (200, or 3,000 steps)."""
    network: Literal["online", "target"] = "online"
    """Which of the run's two networks: the one that was trained, or the average of its weights over time."""
    confident: float | None = None
    """Of finetune, beyond the paper: images without a label join with the fine-tuned network's own answer
    where its probability is at least this (0.95, say), and the network is fine-tuned anew on all of them."""
    consistency: bool = False
    """Of finetune and supervised, beyond the paper: images without a label train, too. An average of the
    network over time answers for an easy view of each; where it is sure, the network learns that answer on a
    hard view."""
    sure: float = 0.95
    """Of --consistency: the least probability of an answer that is learnt. A training of fewer than 1,000
    steps learns the others, too, each class by its probability. With 1 no answer is learnt."""
    preprocessing: Literal["own", "middle", "deepmind"] = "own"
    """How images are cut and resized: as the run has it, the middle square, or exactly as in DeepMind's
    evaluation (which is imported weights' own)."""
    validation: float = 0.2
    """Share of the labels that chooses settings, where the run has set none aside."""
    seeds: int = 1
    """Trainings of finetune, linear-sgd and supervised with the chosen settings; the table shows mean and
    deviation."""
    seed: int = 0
    """The first seed."""
    most: int = 2000
    """Images of the corruptions at most, spread over all test images."""
    checkpoint: Path | None = None
    """Of the run; by default the newest."""
    data: str | None = None
    """Where the images of the run lie now, if they were moved."""
    table: Path | None = None
    """The same of its table of labels (its --labels)."""
    test: Path | None = None
    """The same of its images for testing alone (its --test)."""
    data_root: Path | None = None
    """The same of torchvision's data sets (its --root)."""
    labels_per_class: int | None = None
    """Keep this many labels of each class, as pretrain does: of --data for imported weights, which come
    without labels; other ones than the run's own for a run that saw none (--method.positives 0)."""
    label_fraction: float | None = None
    """The same: keep this share of each class's labels."""
    split_seed: int | None = None
    """Seed of that choice (pretrain's --data.split-seed); by default the run's own."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of features and training: auto is bf16 on a GPU, fp32 on a CPU."""
    workers: int | None = None
    """Processes that read files; by default one for each core."""
    cache: bool = True
    """Keep features in the run directory for the next time."""
    name: str = ""
    """Added to the name of the result, to keep several: evaluations/PROTOCOL-NAME.json."""
    overwrite: bool = False
    """Replace results that are already there."""
    compare: bool = False
    """Measure nothing: show the results of several runs side by side."""
    debug: bool = False
    """Show the traceback of an error."""


def wanted_protocols(flags: EvaluateFlags) -> tuple[str, ...]:
    """Each once, in the order of the table above; commas separate, too."""
    words = [word for given in flags.protocol for word in given.replace(",", " ").split()]
    words += ["corruptions"] if flags.corrupt else []
    if strange := [word for word in words if word not in PROTOCOLS]:
        raise UserError(f"unknown protocol {strange[0]!r}: there are {', '.join(PROTOCOLS)}")
    if not words:
        raise UserError(f"no protocol: choose from {', '.join(PROTOCOLS)}")
    return tuple(name for name in PROTOCOLS if name in words)


def from_scratch(flags: EvaluateFlags) -> bool:
    """Whether nothing is asked of the run's weights."""
    return wanted_protocols(flags) == ("supervised",)


def check_flags(flags: EvaluateFlags) -> None:
    """Refuse what cannot work, before anything runs."""
    least: Sequence[tuple[str, float | None, float]] = (
        ("--k", flags.k, 1),
        ("--epochs", flags.epochs, 1),
        ("--seeds", flags.seeds, 1),
        ("--most", flags.most, 1),
        ("--workers", flags.workers, 0),
    )
    for flag, value, low in least:
        if value is not None and value < low:
            raise UserError(f"{flag} is {value}: it must be at least {low:g}")
    if flags.temperature <= 0:
        raise UserError(f"--temperature is {flags.temperature:g}: it must be above 0")
    if flags.confident is not None and not 0 <= flags.confident <= 1:
        raise UserError(f"--confident is {flags.confident:g}: it is a probability, from 0 to 1")
    _check_consistency(flags)
    if not 0 <= flags.validation < 1:
        raise UserError(f"--validation is {flags.validation:g}: it must be at least 0 and below 1")
    if "/" in flags.name:
        raise UserError(f"--name {flags.name}: it becomes part of a file's name, so it holds no /")


def _check_consistency(flags: EvaluateFlags) -> None:
    if not 0 <= flags.sure <= 1:
        raise UserError(f"--sure is {flags.sure:g}: it is a probability, from 0 to 1")
    if flags.consistency and flags.confident is not None:
        raise UserError(
            "--consistency and --confident are two ways to use images without a label: choose one"
        )
    if flags.consistency and not {"finetune", "supervised"} & {*wanted_protocols(flags)}:
        raise UserError("--consistency is a way to fine-tune: add --protocol finetune (or supervised)")
