"""From what the user points at to a data set with few labels."""

from dataclasses import replace
from pathlib import Path

from semppl.core.errors import UserError
from semppl.core.hidden import HiddenLabels
from semppl.data.arrays import load_npz
from semppl.data.dataset import Dataset
from semppl.data.digits import load_digits
from semppl.data.splits import keep_per_class


def load_dataset(
    source: str,
    *,
    labels_per_class: int | None = None,
    seed: int = 0,
    oracle: bool = False,
    require_labels: bool = True,
) -> Dataset:
    """The word "digits" or an npz file.

    `labels_per_class` withholds all other labels, which become hidden truth.

    `oracle` alone lets hidden truth into a training tensor. Every class must have a label unless
    `require_labels` is off, for objectives that use none.
    """
    if source == "digits":
        dataset = load_digits()
    elif source.endswith(".npz"):
        dataset = load_npz(Path(source))
    elif Path(source).exists():
        raise UserError(f"{source}: not a data set this version reads: give an .npz file or the word digits")
    else:
        raise UserError(f"{source}: no such data: give an .npz file or the word digits")
    given_M = dataset.labels_M
    if labels_per_class is not None:
        if dataset.hidden is not None:
            raise UserError(f"{source}: labels per class cannot be asked of a file that has y_hidden already")
        dataset = replace(
            dataset,
            labels_M=keep_per_class(given_M, labels_per_class, dataset.classes, seed),
            hidden=HiddenLabels(given_M),
        )
        dataset = replace(dataset, oracle_M=given_M) if oracle else dataset
    elif oracle:
        raise UserError("the oracle needs true labels of all images: use it with labels per class")
    if require_labels:
        _require_labels(dataset)
    return dataset


def _require_labels(dataset: Dataset) -> None:
    if not len(dataset.labelled_L):
        raise UserError(
            f"{dataset.name}: no image has a label: SemPPL needs one for each class (in an npz file: y)"
        )
    present = set(dataset.labels_M[dataset.labelled_L].tolist())
    for label, name in enumerate(dataset.classes):
        if label not in present:
            raise UserError(
                f"{dataset.name}: class {name!r} has no label: label one of its images or leave the class "
                "out (classes count from 0)"
            )
