"""Fine-tuning from the projector's first layer as a protocol: a sweep, a choice, and several seeds.

Shapes: L labelled images, V labels that choose.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from semppl.core.counted import counted
from semppl.evaluate.exam import Mark, mark_of, marked
from semppl.evaluate.finetune import (
    DEFAULT_SWEEP,
    EPOCHS,
    PAPER_SWEEP,
    FineTuned,
    Rates,
    best_first,
    images_per_step,
    num_steps,
    ran_away,
)
from semppl.protocols.consistency import finetune_consistently
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.self_training import join
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.subject import Subject
from semppl.protocols.tuning import right_on, tune
from semppl.protocols.unfinished import bookmark_of, digest_of, recalled, start_of

Setting = tuple[int, Rates]
"""Batch size and rates."""

_BATCH: Final = 128
_FEWEST_STEPS: Final = 300
# settings that are trained on all labels where they run away
_TRIES: Final = 3


@dataclass(frozen=True)
class Training:
    """On what, how, and for how long."""

    index_L: Tensor
    """Positions in the data set."""
    labels_L: Tensor
    batch: int
    rates: Rates
    epochs: int


def finetune(subject: Subject) -> Outcome:
    """From labels alone as in the paper, or with images without a label."""
    return finetune_consistently(subject) if subject.flags.consistency else _finetune(subject)


def _finetune(subject: Subject) -> Outcome:
    """Settings are chosen on labels of training; the network that is marked is trained on all of them."""
    task, labels, flags = subject.task, subject.task.labels, subject.flags
    exact = flags.sweep == "paper"
    small = tuple((_BATCH, rates) for rates in DEFAULT_SWEEP)
    sweep: tuple[Setting, ...] = PAPER_SWEEP if exact else small
    # where answers join, --epochs is of the training with them: of few labels so many are few steps
    first = flags.epochs if flags.confident is None else None
    promised, scores = _promised(subject, sweep, first)
    seeds = range(flags.seed, flags.seed + flags.seeds)
    found, joined, trainings, lost = [], [], list[Training](), list[dict[str, Any]]()
    for seed in seeds:
        model, training, runaways = _holding(subject, promised, first, seed)
        trainings.append(training)
        lost += runaways
        if flags.confident is not None:
            both = join(subject.desk, model, labels.labels_M, flags.confident)
            subject.desk.say(_said(both.facts))
            setting = (training.batch, training.rates)
            on_both = _training(both.index_L, both.labels_L, setting, flags.epochs, exact=exact)
            title = f"fine-tuning with confident answers, seed {seed}"
            model = _trained(subject, on_both, seed, title, f"confident-seed{seed}")
            joined.append(both.facts | {"epochs": on_both.epochs})
        found.append(subject.marked(subject.desk.logits(model, task.exam.images)))
    crops = subject.desk.crops_in_words(len(labels.all_L), exact=exact)
    how = (
        f"chosen from {len(sweep)} on {len(labels.choose_V):,} of the labels, then trained on all of them"
        if scores
        else "taken without choosing, for too few labels could be set aside"
    )
    on_labels = trainings[0]
    return Outcome(
        protocol=f"fine-tuned from {_layer(subject)}: {crops}, Nesterov 0.9, "
        f"{counted(str(on_labels.epochs), 'epoch')}, rates × 0.2 at 60 % and 80 %, no weight decay; "
        f"settings {how}; {task.describe()}; {_once_more(flags, joined)}"
        f"{counted(len(seeds), 'seed')}",
        numbers=over_seeds([numbers_of(metrics) for metrics in found]),
        settings={
            "batch_size": images_per_step(len(labels.all_L), on_labels.batch),
            "rates_for_a_batch_of_256": vars(on_labels.rates),
            "epochs": on_labels.epochs,
            "seeds": list(seeds),
            "sweep": scores,
        },
        details={
            "metrics": [metrics.as_json() for metrics in found],
            "confident": joined,
            "trained_with": [_row((each.batch, each.rates)) for each in trainings],
            "ran_away": lost,
        },
    )


def _layer(subject: Subject) -> str:
    return "the projector's first layer" if subject.projected else "the encoder, with a new hidden layer"


def _promised(
    subject: Subject, sweep: tuple[Setting, ...], epochs: int | None
) -> tuple[Mapping[Setting, Mark | None], list[dict[str, Any]]]:
    """Settings and what each has on labels that were set aside, the best first; without any, the second of
    the small sweep.
    """
    labels, seed = subject.task.labels, subject.flags.seed
    if not len(labels.choose_V):
        return {(_BATCH, DEFAULT_SWEEP[1]): None}, []
    truth_V = labels.labels_M[labels.choose_V]
    asked = {"choose": digest_of(labels.choose_V, truth_V)}
    truth_L, exact = labels.labels_M[labels.fit_L], subject.flags.sweep == "paper"
    # batches of more than all labels are batches of all: one training serves all sizes of them
    alike = {setting: (images_per_step(len(labels.fit_L), setting[0]), setting[1]) for setting in sweep}
    known: dict[Setting, float] = {}

    def score(setting: Setting) -> float:
        if alike[setting] not in known:
            known[alike[setting]] = measured(setting)
        return known[alike[setting]]

    def measured(setting: Setting) -> float:
        number, of = len(known) + 1, len({*alike.values()})
        training = _training(labels.fit_L, truth_L, setting, epochs, exact=exact)

        def trained_and_asked() -> float:
            model = _trained(subject, training, seed, f"fine-tuning {number}/{of}")
            return 100 * float(right_on(subject.desk, model, labels.choose_V, truth_V).float().mean())

        facts = _facts(subject, training, seed) | asked
        return recalled(subject, "finetune", f"setting{number}", facts, trained_and_asked)

    scores = best_first(sweep, score)
    rows = [_row(setting) | {"accuracy": scores[setting]} for setting in sweep]
    return {setting: mark_of(score / 100, len(truth_V)) for setting, score in scores.items()}, rows


def _row(setting: Setting) -> dict[str, Any]:
    batch, rates = setting
    return {"batch_size": batch, "encoder": rates.encoder, "classifier": rates.classifier}


def _holding(
    subject: Subject, promised: Mapping[Setting, Mark | None], epochs: int | None, seed: int
) -> tuple[FineTuned, Training, list[dict[str, Any]]]:
    """Trained on all labels with the best setting; where that runs away with the next best one that is not
    bolder, and so on; and what ran away. Where nothing holds it is what has the most of its own labels right.
    """
    desk, index_L, exact = subject.desk, subject.task.labels.all_L, subject.flags.sweep == "paper"
    labels_L, title = subject.task.labels.labels_M[index_L], f"fine-tuning on all labels, seed {seed}"
    away, lost = list[tuple[float, FineTuned, Training]](), list[dict[str, Any]]()
    for setting, mark in promised.items():
        if len(away) == _TRIES or any(setting[1].bolder(each.rates) for *_, each in away):
            continue
        training = _training(index_L, labels_L, setting, epochs, exact=exact)
        again, name = (f", try {len(away) + 1}", f"-try{len(away) + 1}") if away else ("", "")
        model = _trained(subject, training, seed, title + again, f"seed{seed}{name}")
        if mark is None:
            return model, training, lost
        own = marked(right_on(desk, model, index_L, labels_L))
        if not desk.ranks.from_main(ran_away(own, mark)):
            return model, training, lost
        desk.say(
            f"{title}: rates {setting[1]} ran away ({own.accuracy:.0f} % of its own labels right, where they "
            f"had {mark.accuracy:.0f} % of labels left out)"
        )
        lost.append(_row(setting) | {"seed": seed, "own_labels": own.accuracy})
        away.append((own.accuracy, model, training))
    _, model, training = max(away, key=lambda each: each[0])
    desk.say(f"{title}: no rates held; those with the most of its own labels right are {training.rates}")
    return model, training, lost


def _once_more(flags: EvaluateFlags, joined: Sequence[Mapping[str, Any]]) -> str:
    if flags.confident is None:
        return ""
    epochs = counted(" or ".join(map(str, sorted({facts["epochs"] for facts in joined}))), "epoch")
    return (
        f"then anew for {epochs} with its own answers of probability {flags.confident:g} and more as labels; "
    )


def _said(facts: Mapping[str, Any]) -> str:
    right = f", {facts['right']:.1%} of them right" if "right" in facts else ""
    return f"{facts['joined']:,} of {facts['of']:,} images without a label join{right}"


def _training(
    index_L: Tensor, labels_L: Tensor, setting: Setting, epochs: int | None, *, exact: bool
) -> Training:
    """For as many epochs as were asked for; else the paper's 30, and with few labels and the small sweep as
    many as 300 steps need.
    """
    batch, rates = setting
    if epochs is None:
        few = math.ceil(_FEWEST_STEPS * images_per_step(len(index_L), batch) / len(index_L))
        epochs = EPOCHS if exact else max(EPOCHS, few)
    return Training(index_L, labels_L, batch, rates, epochs)


def _trained(
    subject: Subject, training: Training, seed: int, title: str, name: str | None = None
) -> FineTuned:
    """With a name it goes on where it was left."""
    index_L, epochs, batch = training.index_L, training.epochs, training.batch
    steps = num_steps(epochs, len(index_L), images_per_step(len(index_L), batch))
    facts = _facts(subject, training, seed) if name else {}
    return tune(
        subject.desk,
        subject.online,
        index_L,
        training.labels_L,
        rates=training.rates,
        epochs=epochs,
        batch_size=batch,
        seed=seed,
        title=title,
        exact=subject.flags.sweep == "paper",
        left=bookmark_of(subject, "finetune", name, title=title, steps=steps, facts=facts),
    )


def _facts(subject: Subject, training: Training, seed: int) -> dict[str, Any]:
    """Which training it is."""
    return {
        **start_of(subject.online),
        **vars(training.rates),
        "batch": training.batch,
        "epochs": training.epochs,
        "seed": seed,
        "labels": digest_of(training.index_L, training.labels_L),
    }
