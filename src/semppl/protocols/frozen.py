"""k-NN and linear evaluation of the frozen encoder. Shapes: N images of the exam, L labelled, F features."""

from torch import Tensor

from semppl.core.counted import counted
from semppl.evaluate.bank import fitting_k
from semppl.evaluate.finetune import images_per_step, num_steps
from semppl.evaluate.knn import knn_logits
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.probe import BATCH, EPOCHS, Probe, train_probe
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.subject import Subject
from semppl.protocols.task import Labels
from semppl.protocols.unfinished import bookmark_of, digest_of, start_of
from semppl.train.progress import StageProgress


def labelled_features(subject: Subject, labels: Labels) -> Tensor:
    """Of all labelled images [L, F]."""
    desk = subject.desk
    images = desk.dataset.images[labels.all_L]
    return desk.features(subject.online.encoder, images, "features of labelled images")


def exam_features(subject: Subject) -> Tensor:
    """Of the images of the exam [N, F]."""
    return subject.desk.features(subject.online.encoder, subject.task.exam.images, "features of the exam")


def linear_fit(subject: Subject, labels: Labels) -> LinearFit:
    """The linear classifier that all protocols on frozen features share."""
    labels_L = labels.labels_M[labels.all_L]
    return subject.desk.linear(labelled_features(subject, labels), labels_L, subject.flags.seed)


def linear_words(fit: LinearFit) -> str:
    """For beside the numbers."""
    return f"l2 logistic regression on frozen features, {fit.chosen}"


def knn(subject: Subject) -> Outcome:
    """The nearest labelled images vote, weighed by similarity."""
    task, flags = subject.task, subject.flags
    labels_L = task.labels.labels_M[task.labels.all_L]
    k = fitting_k(labels_L) if flags.k is None else min(flags.k, len(labels_L))
    logits_NY = knn_logits(
        exam_features(subject),
        labelled_features(subject, task.labels),
        labels_L,
        k=k,
        temperature=flags.temperature,
        classes=subject.classes,
        device=subject.desk.device,
    )
    metrics = subject.marked(logits_NY)
    return Outcome(
        protocol=f"k-NN: cosine, k={k}, T={flags.temperature:g}; {task.describe()}",
        numbers=numbers_of(metrics),
        settings={"k": k, "temperature": flags.temperature},
        details={"metrics": metrics.as_json()},
    )


def linear(subject: Subject) -> Outcome:
    """Full-batch logistic regression."""
    fit = linear_fit(subject, subject.task.labels)
    metrics = subject.marked(fit.logits(exam_features(subject)))
    return Outcome(
        protocol=f"linear: {linear_words(fit)}; {subject.task.describe()}",
        numbers=numbers_of(metrics),
        settings={"strength": fit.strength, "seed_of_folds": subject.flags.seed},
        details={"metrics": metrics.as_json()},
    )


def linear_sgd(subject: Subject) -> Outcome:
    """The protocol of the released code: SGD on random crops and flips."""
    task, flags = subject.task, subject.flags
    epochs = flags.epochs or EPOCHS
    count = len(task.labels.all_L)
    batch = images_per_step(count, BATCH)
    found = []
    for seed in range(flags.seed, flags.seed + flags.seeds):
        probe = _probe(subject, epochs=epochs, batch=batch, seed=seed)
        found.append(subject.marked(subject.desk.logits(probe, task.exam.images)))
    return Outcome(
        protocol=f"linear by SGD: {subject.desk.crops_in_words(count, exact=True)}, Nesterov 0.9, rate 0.3 · "
        f"{batch}/256 by a cosine, {counted(str(epochs), 'epoch')}, no weight decay; {task.describe()}; "
        f"{counted(flags.seeds, 'seed')}",
        numbers=over_seeds([numbers_of(metrics) for metrics in found]),
        settings={
            "epochs": epochs,
            "batch_size": batch,
            "seeds": [flags.seed + i for i in range(flags.seeds)],
        },
        details={"metrics": [metrics.as_json() for metrics in found]},
    )


def _probe(subject: Subject, *, epochs: int, batch: int, seed: int) -> Probe:
    desk, encoder, labels = subject.desk, subject.online.encoder, subject.task.labels
    index_L = labels.all_L
    labels_L = labels.labels_M[index_L]
    title, steps = f"linear by SGD, seed {seed}", num_steps(epochs, len(labels_L), batch)
    facts = {"seed": seed, "batch": batch, "labels": digest_of(index_L, labels_L), **start_of(encoder)}
    left = bookmark_of(subject, "linear-sgd", f"seed{seed}", title=title, steps=steps, facts=facts)
    examples, close = desk.examples(index_L, labels_L, batch_size=batch, seed=seed, name="probe", exact=True)
    try:
        with left as bookmark, StageProgress(desk.console, title, steps) as progress:
            return train_probe(
                encoder,
                examples,
                num_features=int(encoder.num_features),  # type: ignore[arg-type]
                num_labels=len(labels_L),
                classes=subject.classes,
                epochs=epochs,
                batch_size=batch,
                seed=seed,
                device=desk.device,
                means=desk.means._replace(bookmark=bookmark),
                advance=progress.advance,
            )
    finally:
        close()
