"""Which image plays which part: chosen by seed, written as a file, compared on resuming."""

import csv
import io
from hashlib import sha256

import torch
from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data.dataset import Dataset


def keep_per_class(labels_M: Tensor, per_class: int, classes: tuple[str, ...], seed: int) -> Tensor:
    """The labels with all but `per_class` of each class withheld, chosen at random by the seed."""
    if per_class < 1:
        raise UserError(f"labels per class must be at least 1, not {per_class}")
    kept_M = torch.full_like(labels_M, UNLABELLED)
    for label, name in enumerate(classes):
        members = _shuffled(labels_M, label, f"split/{label}", seed)
        if len(members) < per_class:
            raise UserError(
                f"class {name!r} has {len(members)} labelled images: {per_class} per class were asked for"
            )
        kept_M[members[:per_class]] = label
    return kept_M


def keep_fraction(labels_M: Tensor, fraction: float, classes: tuple[str, ...], seed: int) -> Tensor:
    """The labels with all but a share of each class withheld; every class keeps at least one."""
    if not 0 < fraction <= 1:
        raise UserError(f"the fraction of labels must be above 0 and at most 1, not {fraction}")
    kept_M = torch.full_like(labels_M, UNLABELLED)
    for label in range(len(classes)):
        members = _shuffled(labels_M, label, f"split/{label}", seed)
        kept_M[members[: max(round(fraction * len(members)), 1)]] = label
    return kept_M


def hold_out(labels_M: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """(labels for training, labels for validation), −1 elsewhere: a share of each class is set aside.

    A class with three labels or more gives at least one and keeps at least two; a class with one or two
    labels keeps them.
    """
    if not 0 <= share < 1:
        raise UserError(f"the share of labels for validation must be at least 0 and below 1, not {share}")
    train_M, held_M = labels_M.clone(), torch.full_like(labels_M, UNLABELLED)
    if not share:
        return train_M, held_M
    for label in labels_M[labels_M != UNLABELLED].unique().tolist():
        members = _shuffled(labels_M, label, f"validation/{label}", seed)
        chosen = members[: min(max(round(share * len(members)), 1), max(len(members) - 2, 0))]
        held_M[chosen] = label
        train_M[chosen] = UNLABELLED
    return train_M, held_M


def _shuffled(labels_M: Tensor, label: int, name: str, seed: int) -> Tensor:
    """The images of a class in an order that the seed decides."""
    members = (labels_M == label).nonzero().squeeze(1)
    return members[torch.randperm(len(members), generator=generator(seed, name))]


def split_table(dataset: Dataset) -> str:
    """The content of split.csv: path, label (empty unless the user gave it), role."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("path", "label", "role"))
    labels = dataset.labels_M.tolist()
    held = [UNLABELLED] * len(labels) if dataset.held_out_M is None else dataset.held_out_M.tolist()
    for name, label, apart in zip(dataset.names, labels, held, strict=True):
        if label != UNLABELLED:
            writer.writerow((name, dataset.classes[label], "labelled"))
        elif apart != UNLABELLED:
            writer.writerow((name, dataset.classes[apart], "validation"))
        else:
            writer.writerow((name, "", "unlabelled"))
    if dataset.test_labels_T is not None:
        names = dataset.test_names or [f"x_test[{i}]" for i in range(len(dataset.test_labels_T))]
        for name, label in zip(names, dataset.test_labels_T.tolist(), strict=True):
            writer.writerow((name, dataset.classes[label], "test"))
    return buffer.getvalue()


def digest(table: str) -> str:
    """sha256 of a split table."""
    return sha256(table.encode(errors="surrogateescape")).hexdigest()
