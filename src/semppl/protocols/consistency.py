"""Training with consistency as a protocol: its numbers, and what was done in words.

It begins with what pre-training made (`finetune`), or with random weights (`supervised`), which tells what
pre-training is worth.

Shapes: N images without a label.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from torch import nn

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.evaluate.consistency import WEIGHT_DECAY, Plan, Tally, make_plan
from semppl.evaluate.linear import LinearFit
from semppl.protocols.frozen import linear_fit, linear_words
from semppl.protocols.hard import hard_in_words, hard_view
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.self_training import without_label
from semppl.protocols.subject import Subject
from semppl.protocols.teaching import Lot, collect_lot, teach
from semppl.protocols.unfinished import bookmark_of, digest_of, start_of
from semppl.views.easy import reach
from semppl.views.warp import warping

# in words
_OPTIMISERS: Final = {"sgd": "Nesterov 0.9", "adamw": "AdamW"}


@dataclass(frozen=True)
class Start:
    """Where a training begins."""

    protocol: str
    """That it is a part of."""
    name: str
    """For progress."""
    words: str
    """What is done, for beside the numbers."""
    encoder: Callable[[int], nn.Module]
    """By the seed of the training."""
    classifier: Callable[[nn.Module], LinearFit]
    """For features of that encoder."""
    strength: float
    """Its inverse penalty."""
    classifier_words: str
    chosen: str
    """Which settings were."""


def finetune_consistently(subject: Subject) -> Outcome:
    """From the encoder of the run and a linear classifier of its features."""

    def start() -> Start:
        fit = linear_fit(subject, subject.task.labels)
        return Start(
            protocol="finetune",
            name="fine-tuning with consistency",
            words="fine-tuned with consistency",
            encoder=lambda _: subject.online.encoder,
            classifier=lambda _: fit,
            strength=fit.strength,
            classifier_words=f"as {linear_words(fit)}",
            chosen="no other setting was chosen",
        )

    return train_consistently(subject, start)


def train_consistently(subject: Subject, begin: Callable[[], Start]) -> Outcome:
    """All but what a start chooses was fixed beforehand: nothing is set aside, so all labels train."""
    desk, task, labels, flags = subject.desk, subject.task, subject.task.labels, subject.flags
    index_N = without_label(desk, labels.labels_M)
    if not len(index_N):
        raise UserError(f"{desk.dataset.name}: every image has a label: leave --consistency out")
    start, plan = begin(), make_plan(len(index_N), flags.epochs, answers=flags.sure < 1)
    lot = collect_lot(desk, labels.all_L, index_N, labels.labels_M)
    seeds = range(flags.seed, flags.seed + flags.seeds)
    found, curves = [], []
    for seed in seeds:
        teacher, curve = _taught(subject, start, plan, lot, seed)
        desk.say(_said(len(index_N), curve[-1]))
        found.append(subject.marked(desk.logits(teacher, task.exam.images)))
        curves.append({"seed": seed, "by_epoch": curve})
    return Outcome(
        protocol=f"{_words(subject, plan, len(index_N), start)}; {task.describe()}; "
        f"{counted(len(seeds), 'seed')}",
        numbers=over_seeds([numbers_of(metrics) for metrics in found]),
        settings={
            **asdict(plan),
            "unlabelled_images": len(index_N),
            "least_probability": flags.sure,
            "weight_decay": WEIGHT_DECAY,
            "strength_of_the_start": start.strength,
            "hard_view": asdict(hard_view(desk)),
            "warp": warping(),
            "seeds": list(seeds),
        },
        details={"metrics": [metrics.as_json() for metrics in found], "consistency": curves},
    )


def _taught(
    subject: Subject, start: Start, plan: Plan, lot: Lot, seed: int
) -> tuple[nn.Module, Sequence[dict[str, Any]]]:
    """The teacher at the end, and what it was sure of by epoch."""
    desk, encoder, sure = subject.desk, start.encoder(seed), subject.flags.sure
    tally = Tally(plan.epochs, desk.dataset.hidden, desk.device)
    title = f"{start.name}, seed {seed}"
    left = bookmark_of(
        subject,
        start.protocol,
        f"consistency-seed{seed}",
        title=title,
        steps=plan.steps,
        facts={
            **asdict(plan),
            **start_of(encoder),
            "strength": start.strength,
            "sure": sure,
            "warp": warping(),
            "seed": seed,
            "labels": digest_of(subject.task.labels.labels_M, lot.index_N),
        },
        beside={"tally": tally.table_E4},
    )
    fit = start.classifier(encoder)
    teacher = teach(desk, encoder, fit, lot, plan, sure=sure, seed=seed, title=title, left=left, tally=tally)
    return teacher, tally.as_json()


def _said(count: int, last: Mapping[str, Any]) -> str:
    right = f", {last['right']:.1%} of these answers right" if "right" in last else ""
    return f"sure of {last['coverage']:.1%} of {count:,} images without a label in the last epoch{right}"


def _words(subject: Subject, plan: Plan, count: int, start: Start) -> str:
    """For beside the numbers."""
    view = hard_view(subject.desk)
    most = reach(view.size)
    doubtful = " and taught by their probabilities where P is less" * plan.doubtful
    moves = ["flipped"] * bool(view.flip) + [f"shifted by up to {most} px"] * bool(most)
    return (
        f"{start.words}: {count:,} unlabelled images, P = {subject.flags.sure:g}, "
        f"{counted(str(plan.epochs), 'epoch')} of them, {plan.unlabelled} beside {plan.labelled} labelled "
        f"ones in each of {counted(plan.steps, 'step')}; encoder and a linear classifier that starts "
        f"{start.classifier_words}; easy views ({', '.join(moves) or 'whole images'}) for labels and the "
        f"teacher's answers, hard ones with {hard_in_words(view)}; answers aligned to the "
        f"shares of the labels{doubtful}; {_OPTIMISERS[plan.optimizer]}, rate {plan.rate:g} falling by a "
        f"cosine, weight decay {WEIGHT_DECAY:g}; marked is the teacher, an average with decay "
        f"{plan.decay:.4g}; {start.chosen}"
    )
