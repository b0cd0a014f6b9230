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
        members = (labels_M == label).nonzero().squeeze(1)
        if len(members) < per_class:
            raise UserError(
                f"class {name!r} has {len(members)} labelled images: {per_class} per class were asked for"
            )
        chosen = members[
            torch.randperm(len(members), generator=generator(seed, f"split/{label}"))[:per_class]
        ]
        kept_M[chosen] = label
    return kept_M


def split_table(dataset: Dataset) -> str:
    """The content of split.csv: path, label (empty unless training knows it), role."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("path", "label", "role"))
    for name, label in zip(dataset.names, dataset.labels_M.tolist(), strict=True):
        known = label != UNLABELLED
        writer.writerow(
            (name, dataset.classes[label] if known else "", "labelled" if known else "unlabelled")
        )
    if dataset.test_labels_T is not None:
        for i, label in enumerate(dataset.test_labels_T.tolist()):
            writer.writerow((f"x_test[{i}]", dataset.classes[label], "test"))
    return buffer.getvalue()


def digest(table: str) -> str:
    """sha256 of a split table."""
    return sha256(table.encode()).hexdigest()
