"""From what the user points at to a data set with few labels. Shapes: M images, T test images."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.data.arrays import load_npz
from semppl.data.dataset import Dataset
from semppl.data.digits import load_digits
from semppl.data.duplicates import without_duplicates
from semppl.data.files import told_apart
from semppl.data.folder import load_folder
from semppl.data.imagenet import read_subset
from semppl.data.images import ImageFiles, Images, gather
from semppl.data.mask_search import masks_in_memory, with_masks
from semppl.data.paths import Paths
from semppl.data.request import Request
from semppl.data.splits import hold_out, keep_fraction, keep_per_class
from semppl.data.torchvision import is_torchvision_name, load_torchvision

# files with labels that are read once before training, where all do not fit into memory
_MOST_TRIED: Final = 4096


def load_dataset(request: Request) -> Dataset:
    """Read, withhold what was asked for, set labels aside, and keep pixels in memory where they fit.

    Withheld labels become hidden truth; `oracle` alone lets them into a training tensor. Every class must
    have a label unless `require_labels` is off, for objectives that use none. Files of a folder in which
    reading finds damage that looking did not see are left out, too, so it begins once more without them,
    unless it is known already which these are (`Request.damaged`).
    """
    search, folder = request.damaged is None, Path(request.source).is_dir()
    damaged = dict(request.damaged or {})
    while True:
        dataset = _labelled(replace(request, damaged=damaged))
        ready, problems = _in_memory(dataset, request, search=search)
        found = _damaged(dataset, problems)
        if not (found and search and folder):
            break
        damaged |= {name: told_apart(problem)[1] for name, problem in found.items()}
        del ready  # or two copies of all pixels would be in memory
    notes = tuple(f"{problem}: a grey image stands for it" for problem in sorted(problems))
    return masks_in_memory(replace(ready, notes=(*ready.notes, *notes), unreadable=found), request)


def _labelled(request: Request) -> Dataset:
    """With the labels that were asked for, and masks; pixels are where they were."""
    given = _given(request)
    dataset = without_duplicates(_kept(given, request))
    if request.oracle:
        if not request.simulates:
            raise UserError("the oracle needs true labels of all images: use it with labels per class")
        dataset = replace(dataset, oracle_M=given.labels_M)
    dataset = _with_validation(dataset, request)
    if request.require_labels:
        _require_labels(dataset)
    return with_masks(dataset, request)


def _given(request: Request) -> Dataset:
    """With all labels that there are."""
    source = request.source
    path, named = Path(source), is_torchvision_name(source)
    if source == "digits" or source.endswith(".npz") or (named is not None and not path.is_dir()):
        _refuse_tables(request)
    if source == "digits":
        return load_digits()
    if source.endswith(".npz"):
        return load_npz(path)
    if path.is_dir():
        return load_folder(request)
    if named is not None:
        return _from_torchvision(named, request)
    what = "not a data set this version reads" if path.exists() else "no such data"
    raise UserError(
        f"{source}: {what}: give a folder of images, an .npz file, the name of a torchvision set or digits"
    )


def _refuse_tables(request: Request) -> None:
    for flag, value in (("--labels", request.labels), ("--test", request.test)):
        if value is not None:
            raise UserError(f"{flag} {value} is for folders of images: {request.source} brings its own")


def _from_torchvision(name: str, request: Request) -> Dataset:
    named = load_torchvision(name, None if request.root is None else Path(request.root))
    images, tests = (
        as_files(part) if isinstance(part, list) else part for part in (named.images, named.test_images)
    )
    if images is None:
        raise UserError(f"{name}: no training images")
    names = (
        images.paths if isinstance(images, ImageFiles) else tuple(f"{name}:{i}" for i in range(len(images)))
    )
    return Dataset(
        name=name,
        images=images,
        labels_M=named.labels_M,
        names=names,
        classes=named.classes,
        test_images=tests,
        test_labels_T=named.test_labels_T,
        test_names=tests.paths if isinstance(tests, ImageFiles) else None,
    )


def as_files(paths: list[str]) -> ImageFiles:
    """Named by what follows the folder that they share, so that they may be moved."""
    root = Path(os.path.commonpath(paths)) if len(paths) > 1 else Path(paths[0]).parent
    return ImageFiles(root, Paths(path[len(str(root)) :].lstrip("/") for path in paths))


def _kept(given: Dataset, request: Request) -> Dataset:
    """Labels that are not asked for become hidden truth."""
    truth_M, classes, notes = given.labels_M, given.classes, given.notes
    if request.simulates and given.hidden is not None:
        raise UserError(
            f"{request.source}: labels per class cannot be asked of a file that has y_hidden already"
        )
    listed = request.labels is not None and request.labels.endswith(".txt")
    if [request.labels_per_class is not None, request.label_fraction is not None, listed].count(True) > 1:
        raise UserError(
            "--labels-per-class, --label-fraction and a list of names all choose labels: give one of them"
        )
    if request.labels_per_class is not None:
        kept_M = keep_per_class(truth_M, request.labels_per_class, classes, request.seed)
    elif request.label_fraction is not None:
        kept_M = keep_fraction(truth_M, request.label_fraction, classes, request.seed)
    elif request.labels is not None and listed:
        listed_M, sentence = read_subset(Path(request.labels), given.names)
        kept_M = truth_M.where(torch.from_numpy(listed_M), UNLABELLED)
        notes = (*notes, f"labels are those of {sentence}")
    else:
        return given
    return replace(given, labels_M=kept_M, hidden=HiddenLabels(truth_M), notes=notes)


def _with_validation(dataset: Dataset, request: Request) -> Dataset:
    if not request.validation:
        return dataset
    train_M, held_M = hold_out(dataset.labels_M, request.validation, request.seed)
    hidden = dataset.hidden or HiddenLabels(held_M)
    notes = dataset.notes
    counts = torch.bincount(dataset.labels_M[dataset.labelled_L], minlength=len(dataset.classes))
    if poor := [name for name, count in zip(dataset.classes, counts.tolist(), strict=True) if 0 < count < 3]:
        many = f" and {len(poor) - 3} more" if len(poor) > 3 else ""
        notes = (*notes, f"too few labels to set one aside for validation: {', '.join(poor[:3])}{many}")
    return replace(dataset, labels_M=train_M, held_out_M=held_M, hidden=hidden, notes=notes)


def _require_labels(dataset: Dataset) -> None:
    """What was remarked before may be the reason, so it is said, too."""
    more = "".join(f" ({note})" for note in dataset.notes)
    if not len(dataset.labelled_L) and dataset.test_labels_T is not None:
        raise UserError(
            f"{dataset.name}: no training image has a label (in an npz file: y): those of the test are for "
            f"testing alone, and SemPPL needs one for each class{more}"
        )
    if not len(dataset.labelled_L):
        raise UserError(
            f"{dataset.name}: no image has a label: SemPPL needs one for each class (in an npz file: y){more}"
        )
    present = set(dataset.labels_M[dataset.labelled_L].tolist())
    for label, name in enumerate(dataset.classes):
        if label not in present:
            raise UserError(
                f"{dataset.name}: class {name!r} has no label: label one of its images or leave the class "
                f"out (classes count from 0){more}"
            )


def _in_memory(dataset: Dataset, request: Request, *, search: bool) -> tuple[Dataset, set[str]]:
    """Files of one size that fit are read once, now; others are read again and again by workers. Of these a
    search for damage tries those with a label, for they teach, vote and examine. What was wrong with files
    comes with it.
    """
    problems = set[str]()
    if isinstance(dataset.images, Tensor):
        return dataset, problems
    shape = _one_size(dataset)
    bytes_of_pixel = 3 if dataset.mask_files is None else 4
    fits = (
        shape is not None and bytes_of_pixel * shape[0] * shape[1] * len(dataset.labels_M) <= request.memory
    )
    if request.feed == "resident" and not fits:
        why = "they have different sizes" if shape is None else "they do not fit"
        raise UserError(f"--feed resident: images cannot be kept in memory: {why}; use --feed streaming")
    if request.feed == "streaming" or not fits or shape is None:
        for part in _teachers_and_exam(dataset) if search else ():
            gather(
                part,
                _corner,
                workers=request.workers,
                problems=problems,
                advance=request.told("trying images with labels"),
            )
        return dataset, problems
    read = partial(
        gather,
        prepare=partial(_as_size, shape),
        workers=request.workers,
        advance=request.told("reading images"),
    )
    images = read(dataset.images, problems=problems)
    tests = None if dataset.test_images is None else read(dataset.test_images, problems=problems)
    return replace(dataset, images=images, test_images=tests), problems


def _teachers_and_exam(dataset: Dataset) -> Iterator[Images]:
    """Images with a label, and those for testing alone, where there are not too many to try them."""
    known = [labels != UNLABELLED for labels in (dataset.labels_M, dataset.held_out_M) if labels is not None]
    labelled_L = torch.stack(known).any(0).nonzero().squeeze(1)
    for part in (dataset.images[labelled_L], dataset.test_images):
        if part is not None and len(part) <= _MOST_TRIED:
            yield part


def _damaged(dataset: Dataset, problems: Collection[str]) -> dict[str, str]:
    """Names of the files that could not be read, and what is wrong with them."""
    by_path = {told_apart(problem)[0]: problem for problem in problems}
    parts = ((dataset.images, dataset.names), (dataset.test_images, dataset.test_names))
    return {
        name: by_path[path]
        for images, names in parts
        if by_path and isinstance(images, ImageFiles) and names is not None
        for i, name in enumerate(names)
        if (path := images.path(i)) in by_path
    }


def _one_size(dataset: Dataset) -> tuple[int, int] | None:
    if dataset.sides_M2 is None:
        return None
    sides = dataset.sides_M2
    if dataset.test_sides_T2 is not None:
        sides = torch.cat([sides, dataset.test_sides_T2])
    if (sides != sides[0]).any():
        return None
    return int(sides[0, 0]), int(sides[0, 1])


def _corner(image_3HW: Tensor) -> Tensor:
    return image_3HW[:, :1, :1]


def _as_size(shape: tuple[int, int], image_3HW: Tensor) -> Tensor:
    """As it is; what stands for a file that has gone bad meanwhile is stretched."""
    return image_3HW.expand(3, *shape) if image_3HW.shape[1:] == (1, 1) else image_3HW
