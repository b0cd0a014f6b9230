"""A folder of images and its labels: a table, class folders beside `unlabelled/`, or class folders alone.

Shapes: M images, T test images.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.data.request import Request
from semppl.data.scan import Bad, Scan, require_readable, scan
from semppl.data.table import read_labels

UNLABELLED_NAMES: Final = ("unlabelled", "unlabeled")
_TRAIN, _TEST = "train", ("test", "val", "valid", "validation")
_TABLE: Final = "labels.csv"

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class _Layout:
    """What is where."""

    train: Path
    table: Path | None
    """None: folders are classes."""
    test: Path | None


def load_folder(request: Request) -> Dataset:
    """All images with all labels that were given."""
    layout = _layout(Path(request.source), request)
    found = _without(_scanned(layout.train, request), layout.test)
    notes: tuple[str, ...] = ()
    if layout.table is not None:
        unreadable = {bad.path for bad in found.bad}
        table = read_labels(layout.table, layout.train, found.paths, unreadable)
        classes, labels_M, notes = table.classes, table.labels_M, table.notes
    else:
        classes, labels_M = _class_folders(found.paths)
        _require_classes(classes, layout.train)
    given = Dataset(
        name=Path(request.source).resolve().name,
        images=ImageFiles(layout.train, found.paths),
        labels_M=torch.from_numpy(labels_M),
        names=found.paths,
        classes=classes,
        sides_M2=torch.from_numpy(np.stack([found.heights_M, found.widths_M], 1)),
        file_bytes_M=torch.from_numpy(found.bytes_M),
        bad=found.bad,
        notes=notes,
    )
    return _with_test(given, layout.test, request)


def _layout(root: Path, request: Request) -> _Layout:
    test = None if request.test is None else Path(request.test)
    if test is not None and not test.exists():
        raise UserError(f"--test {test}: no such folder or table")
    if request.labels is not None and not request.labels.endswith(".txt"):
        return _Layout(root, Path(request.labels), test)
    folders = _folders(root)
    if request.simulates and not folders and (root / _TABLE).is_file():
        return _Layout(root, root / _TABLE, test)
    if _TRAIN in folders and (request.simulates or request.labels is not None):
        inside = next((folders[name] for name in _TEST if name in folders), None)
        return _Layout(folders[_TRAIN], None, test or inside)
    if any(name in folders for name in UNLABELLED_NAMES) or request.simulates or request.labels is not None:
        return _Layout(root, None, test)
    if (root / _TABLE).is_file():
        return _Layout(root, root / _TABLE, test)
    if not request.require_labels:
        return _Layout(root, None, test)
    raise UserError(
        f"{root}: which images have labels? Give --labels labels.csv (path,label), or put labelled images "
        f"into class folders beside a folder {UNLABELLED_NAMES[0]}/, or take folders as classes and "
        "keep some labels with --labels-per-class N or --label-fraction F (1 keeps all)"
    )


def _folders(root: Path) -> dict[str, Path]:
    try:
        return {path.name: path for path in root.iterdir() if path.is_dir()}
    except OSError as error:
        raise UserError(f"{root}: this folder cannot be read ({error.strerror})") from error


def _scanned(root: Path, request: Request) -> Scan:
    found = scan(root, workers=request.workers, advance=request.told("looking at files"))
    if not request.allow_unreadable:
        require_readable(found)
    if not len(found.paths):
        images = counted(len(found.bad), "image")
        raise UserError(f"{root}: {images}, none of which can be read: {found.bad[0].reason}")
    return found


def _require_classes(classes: tuple[str, ...], root: Path) -> None:
    if len(classes) == 1:
        raise UserError(f"{root}: only one class folder, {classes[0]!r}: at least two are needed")
    if parts := [name for name in classes if name in (_TRAIN, *_TEST)]:
        raise UserError(
            f"{root}: is {parts[0]}/ a class? Point at {root / _TRAIN} and give --test, or rename it"
        )


def _without(found: Scan, test: Path | None) -> Scan:
    """A test folder inside the data is for testing alone."""
    root = found.root.resolve()
    if test is None or not test.is_dir() or not test.resolve().is_relative_to(root):
        return found
    inside = test.resolve().relative_to(root).as_posix()
    prefix = "" if inside == "." else inside + "/"
    kept = np.array([i for i, path in enumerate(found.paths) if not path.startswith(prefix)], dtype=np.int64)
    if not len(kept):
        raise UserError(f"--test {test}: no image of the data is left to train on")
    return replace(
        found,
        paths=found.paths.take(kept),
        widths_M=found.widths_M[kept],
        heights_M=found.heights_M[kept],
        bytes_M=found.bytes_M[kept],
        mtime_M=found.mtime_M[kept],
        bad=tuple(bad for bad in found.bad if not bad.path.startswith(prefix)),
    )


def _class_folders(paths: Sequence[str]) -> tuple[tuple[str, ...], Labels]:
    """The first folder of a path is its class, unless it is the unlabelled one; files beside it have none."""
    numbers: dict[str, int] = {}
    labels_M = np.full(len(paths), UNLABELLED, dtype=np.int64)
    for i, path in enumerate(paths):
        folder, below, _ = path.partition("/")
        if below and folder not in UNLABELLED_NAMES:
            labels_M[i] = numbers.setdefault(folder, len(numbers))
    classes = tuple(sorted(numbers))
    rank = np.array([classes.index(name) for name in numbers], dtype=np.int64)
    if classes:
        labels_M = np.where(labels_M == UNLABELLED, UNLABELLED, rank[labels_M])
    return classes, labels_M


def _with_test(given: Dataset, test: Path | None, request: Request) -> Dataset:
    if test is None:
        return given
    if test.is_file():
        return _test_from_table(given, test)
    found = _scanned(test, request)
    classes, labels_T = _class_folders(found.paths)
    if (labels_T == UNLABELLED).any():
        first = found.paths[int((labels_T == UNLABELLED).argmax())]
        raise UserError(f"{test}/{first} is in no class folder: test images need a label")
    sides = torch.from_numpy(np.stack([found.heights_M, found.widths_M], 1))
    return replace(
        given,
        test_images=ImageFiles(test, found.paths),
        test_labels_T=_renumbered(labels_T, classes, given.classes, str(test)),
        test_names=Paths(f"{test.name}/{path}" for path in found.paths),
        test_bytes_T=torch.from_numpy(found.bytes_M),
        test_sides_T2=sides,
        bad=(*given.bad, *(Bad(str(test / bad.path), bad.reason) for bad in found.bad)),
    )


def _test_from_table(given: Dataset, file: Path) -> Dataset:
    """Images of the folder itself that are for testing alone: training does not see them."""
    if not isinstance(given.images, ImageFiles):
        raise TypeError("a table names files")
    table = read_labels(file, given.images.root, given.names, {bad.path for bad in given.bad})
    labels_M = _renumbered(table.labels_M, table.classes, given.classes, str(file))
    test_T = (labels_M != UNLABELLED).nonzero().squeeze(1)
    train = subset(given, (labels_M == UNLABELLED).nonzero().squeeze(1))
    sides, sizes = given.sides_M2, given.file_bytes_M
    return replace(
        train,
        test_images=given.images[test_T],
        test_labels_T=labels_M[test_T],
        test_names=given.images.paths.take(test_T.numpy()),
        test_bytes_T=None if sizes is None else sizes[test_T],
        test_sides_T2=None if sides is None else sides[test_T],
        notes=(*train.notes, *table.notes),
    )


def subset(data: Dataset, index_N: Tensor) -> Dataset:
    """Some of the images of a set of files."""
    if not isinstance(data.images, ImageFiles):
        raise TypeError("only files are picked one by one")
    images = data.images[index_N]
    return replace(
        data,
        images=images,
        names=images.paths,
        labels_M=data.labels_M[index_N],
        sides_M2=None if data.sides_M2 is None else data.sides_M2[index_N],
        file_bytes_M=None if data.file_bytes_M is None else data.file_bytes_M[index_N],
    )


def _renumbered(labels: Labels, names: tuple[str, ...], classes: tuple[str, ...], what: str) -> Tensor:
    """Labels of a table of its own in the numbers of the data's classes."""
    if strange := [name for name in names if name not in classes]:
        raise UserError(
            f"{what}: class {strange[0]!r} has no image with a label in the data: label one of it"
        )
    number = torch.tensor([classes.index(name) for name in names] + [UNLABELLED])
    return number[torch.from_numpy(labels)]
