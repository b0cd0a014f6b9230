"""The run's network from random weights: the row "supervised only", trained on the labels alone, and, with
consistency, what the same training gives that fine-tunes the pre-trained network.

Small images are seen in the hard views of fine-tuning with consistency: before these were turned, they were
worth 5 points over shifts and flips on validation images of CIFAR-10 with 4,000 labels, and 19 with 250
(docs/results/tuning.md). Images below 16 px and large ones are cropped as for fine-tuning.

Shapes: L labelled images.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from semppl.core.counted import counted
from semppl.evaluate.baselines import BATCH, RATE, WEIGHT_DECAY, supervised_epochs, train_by_sgd
from semppl.evaluate.descent import Examples
from semppl.evaluate.finetune import images_per_step, num_steps
from semppl.evaluate.linear import LinearFit
from semppl.protocols.consistency import Start, train_consistently
from semppl.protocols.desk import Desk
from semppl.protocols.feeding import examples_of
from semppl.protocols.hard import hard_in_words, hard_view, hardening
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.subject import Subject
from semppl.protocols.task import Labels
from semppl.protocols.teaching import Cut, collect
from semppl.protocols.unfinished import bookmark_of, digest_of
from semppl.train.build import build_networks
from semppl.train.progress import StageProgress
from semppl.views.easy import reach


def fresh(desk: Desk, *, pretrained: bool, seed: int | None = None) -> nn.Module:
    """The encoder as pre-training found it, or with random weights whatever it started from; by default with
    the seed of the run.
    """
    net = replace(desk.config.net, pretrained=pretrained and desk.config.net.pretrained)
    config = replace(desk.config, net=net, seed=desk.config.seed if seed is None else seed)
    return build_networks(config, desk.device)[0].encoder


def supervised(subject: Subject) -> Outcome:
    """On the labels alone, or on all images."""
    return _on_all_images(subject) if subject.flags.consistency else _on_labels(subject)


def _on_all_images(subject: Subject) -> Outcome:
    """The classifier starts with zeros, which is what the strongest of all penalties would give."""

    def zeros(encoder: nn.Module) -> LinearFit:
        features = int(encoder.num_features)  # type: ignore[arg-type]
        return LinearFit(torch.zeros(subject.classes, features), torch.zeros(subject.classes))

    def start() -> Start:
        return Start(
            protocol="supervised",
            name="training with consistency",
            words=f"{subject.desk.config.net.encoder} from random weights, trained with consistency",
            encoder=lambda seed: fresh(subject.desk, pretrained=False, seed=seed),
            classifier=zeros,
            strength=0.0,
            classifier_words="with zeros",
            chosen="no setting was chosen",
        )

    return train_consistently(subject, start)


def _on_labels(subject: Subject) -> Outcome:
    """All settings were fixed beforehand: nothing is set aside, so all labels train."""
    task, labels, flags = subject.task, subject.task.labels, subject.flags
    count = len(labels.all_L)
    batch = images_per_step(count, BATCH)
    epochs = flags.epochs or supervised_epochs(count, batch)
    steps = num_steps(epochs, count, batch)
    seeds = range(flags.seed, flags.seed + flags.seeds)
    found = []
    for seed in seeds:
        model = _trained(subject, labels, batch=batch, steps=steps, seed=seed)
        found.append(subject.marked(subject.desk.logits(model, task.exam.images)))
    return Outcome(
        protocol=f"supervised only: {subject.desk.config.net.encoder} from random weights, trained on the "
        f"labels alone; {_views(subject.desk, count)}; Nesterov 0.9, rate {RATE:g} · {batch}/{BATCH} falling "
        f"by a cosine, weight decay {WEIGHT_DECAY:g}, {counted(str(epochs), 'epoch')}, "
        f"{counted(steps, 'step')}; no setting was chosen; {task.describe()}; {counted(len(seeds), 'seed')}",
        numbers=over_seeds([numbers_of(metrics) for metrics in found]),
        settings={
            "batch_size": batch,
            "rate": RATE * batch / BATCH,
            "weight_decay": WEIGHT_DECAY,
            "epochs": epochs,
            "steps": steps,
            "seeds": list(seeds),
        },
        details={"metrics": [metrics.as_json() for metrics in found]},
    )


def _trained(subject: Subject, labels: Labels, *, batch: int, steps: int, seed: int) -> nn.Module:
    desk, title = subject.desk, f"training on the labels alone, seed {seed}"
    encoder = fresh(desk, pretrained=False, seed=seed)
    facts = {
        "seed": seed,
        "batch": batch,
        "labels": digest_of(labels.all_L, labels.labels_M),
        **({"views": _views(desk, len(labels.all_L))} if _hard(desk) else {}),
    }
    left = bookmark_of(subject, "supervised", f"seed{seed}", title=title, steps=steps, facts=facts)
    examples, close = _examples(desk, labels, batch, seed)
    try:
        with left as bookmark, StageProgress(desk.console, title, steps) as progress:
            return train_by_sgd(
                encoder,
                examples,
                num_features=int(encoder.num_features),  # type: ignore[arg-type]
                classes=len(desk.dataset.classes),
                batch_size=batch,
                steps=steps,
                seed=seed,
                device=desk.device,
                means=desk.means._replace(bookmark=bookmark),
                advance=progress.advance,
            )
    finally:
        close()


def _hard(desk: Desk) -> bool:
    """Whether views are hard ones, and not the crops of fine-tuning."""
    return desk.config.views.recipe == "small_images" and reach(desk.size) > 0


def _examples(desk: Desk, labels: Labels, batch: int, seed: int) -> tuple[Examples, Callable[[], None]]:
    """Labelled views step by step, and what to call when no more are wanted."""
    index_L = labels.all_L
    if not _hard(desk):
        labels_L = labels.labels_M[index_L]
        return desk.examples(index_L, labels_L, batch_size=batch, seed=seed, name="supervised")
    given = collect(desk, index_L, labels.labels_M)
    view = hard_view(desk)
    feed = given.feed(desk, Cut(given.prepare, view.flip, view), batch, seed, "supervised")
    harden = hardening(desk, view, seed, "supervised/colours")
    return examples_of(feed, desk.normalised, desk.regret, harden=harden)


def _views(desk: Desk, num_labels: int) -> str:
    if not _hard(desk):
        return desk.crops_in_words(num_labels, exact=False)
    view = hard_view(desk)
    moves = f"shifts by up to {reach(desk.size)} px" + ", flips" * bool(view.flip)
    return f"hard views: {moves}, {hard_in_words(view)}"
