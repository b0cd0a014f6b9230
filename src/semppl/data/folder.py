"""A folder of images and its labels: a table, class folders beside `unlabelled/`, or class folders alone.

Shapes: M images, T test images.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from semppl.data.scan import Bad, Scan, as_written, require_readable, scan
from semppl.data.table import read_labels

UNLABELLED_NAMES: Final = ("unlabelled", "unlabeled")
"""In capitals or not."""
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
    found, for_testing = _without(_scanned(layout.train, request), layout.test)
    if layout.table is not None:
        unreadable = {bad.path for bad in found.bad}
        table = read_labels(layout.table, layout.train, found.paths, unreadable, for_testing)
        classes, labels_M, notes = table.classes, table.labels_M, table.notes
    else:
        notes = _tables_not_read(Path(request.source), layout.train)
        classes, labels_M = _class_folders(found.paths)
        _require_classes(classes, layout.train, notes)
    given = Dataset(
        name=Path(request.source).resolve().name,
        images=ImageFiles(layout.train, found.paths),
        labels_M=torch.from_numpy(labels_M),
        names=found.paths,
        classes=classes,
        sides_M2=torch.from_numpy(np.stack([found.heights_M, found.widths_M], 1)),
        file_bytes_M=torch.from_numpy(found.bytes_M),
        bad=found.bad,
        notes=(*notes, *_unread(found)),
    )
    return _with_test(given, layout, request)


def _layout(root: Path, request: Request) -> _Layout:
    _require_names(request)
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
    if any(map(_is_unlabelled, folders)) or request.simulates or request.labels is not None:
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


def _require_names(request: Request) -> None:
    """An empty name would be the folder where the command was started."""
    for flag, value in (("--labels", request.labels), ("--test", request.test)):
        if value == "":
            raise UserError(f"{flag} is empty: name what it is for, or leave it out")


def _folders(root: Path) -> dict[str, Path]:
    try:
        return {path.name: path for path in root.iterdir() if path.is_dir()}
    except OSError as error:
        raise UserError(f"{root}: this folder cannot be read ({error.strerror})") from error


def _is_unlabelled(folder: str) -> bool:
    return folder.casefold() in UNLABELLED_NAMES


def _scanned(root: Path, request: Request, prefix: str = "") -> Scan:
    """The images below a folder, whose names in the data set begin with `prefix`."""
    found = scan(root, workers=request.workers, advance=request.told("looking at files"))
    if request.damaged:
        found = _without_damaged(found, request.damaged, prefix)
    if not request.allow_unreadable:
        require_readable(found)
    if not len(found.paths):
        images = counted(len(found.bad), "image")
        raise UserError(f"{root}: {images}, none of which can be read: {found.bad[0].reason}")
    return found


def _unread(found: Scan) -> tuple[str, ...]:
    return (f"{found.root}: {found.unread}",) if found.unread else ()


def _tables_not_read(*folders: Path) -> tuple[str, ...]:
    """What is said of tables that nobody named where folders are the classes."""
    return tuple(
        f"{file} is not read, for folders are the classes: --labels {shlex.quote(str(file))} reads it"
        for file in dict.fromkeys(folder / _TABLE for folder in folders)
        if file.is_file()
    )


def _require_classes(classes: tuple[str, ...], root: Path, notes: Sequence[str]) -> None:
    if len(classes) == 1:
        more = "".join(f" ({note})" for note in notes)
        raise UserError(f"{root}: only one class folder, {classes[0]!r}: at least two are needed{more}")
    if parts := [name for name in classes if name in (_TRAIN, *_TEST)]:
        raise UserError(
            f"{root}: is {parts[0]}/ a class? Point at {root / _TRAIN} and give --test, or rename it"
        )


def _without(found: Scan, test: Path | None) -> tuple[Scan, Collection[str]]:
    """A test folder inside the data is for testing alone: what is left, and the paths in that folder."""
    if test is None or not _is_inside(test, found.root):
        return found, ()
    inside = test.resolve().relative_to(found.root.resolve()).as_posix()
    prefix = "" if inside == "." else inside + "/"
    kept = [i for i, path in enumerate(found.paths) if not path.startswith(prefix)]
    if not kept:
        raise UserError(f"--test {test}: no image of the data is left to train on")
    for_testing = {path for path in found.paths if path.startswith(prefix)}
    for_testing.update(bad.path for bad in found.bad if bad.path.startswith(prefix))
    left = _rows(found, kept, [bad for bad in found.bad if bad.path not in for_testing])
    return left, for_testing


def _is_inside(test: Path, root: Path) -> bool:
    return test.is_dir() and test.resolve().is_relative_to(root.resolve())


def _without_damaged(found: Scan, damaged: Mapping[str, str], prefix: str) -> Scan:
    """Files of which somebody knows that they cannot be read are bad, too."""
    reasons = {as_written(name): reason for name, reason in damaged.items()}
    names = [as_written(prefix + path) for path in found.paths]
    bad = [Bad(found.paths[i], reasons[name]) for i, name in enumerate(names) if name in reasons]
    return _rows(found, [i for i, name in enumerate(names) if name not in reasons], [*found.bad, *bad])


def _rows(found: Scan, kept: Sequence[int], bad: Iterable[Bad]) -> Scan:
    kept_K = np.array(kept, dtype=np.int64)
    return replace(
        found,
        paths=found.paths.take(kept_K),
        widths_M=found.widths_M[kept_K],
        heights_M=found.heights_M[kept_K],
        bytes_M=found.bytes_M[kept_K],
        mtime_M=found.mtime_M[kept_K],
        bad=tuple(bad),
    )


def _class_folders(paths: Sequence[str]) -> tuple[tuple[str, ...], Labels]:
    """The first folder of a path is its class, unless it is the unlabelled one; files beside it have none."""
    numbers: dict[str, int] = {}
    labels_M = np.full(len(paths), UNLABELLED, dtype=np.int64)
    for i, path in enumerate(paths):
        folder, below, _ = path.partition("/")
        if below and not _is_unlabelled(folder):
            labels_M[i] = numbers.setdefault(folder, len(numbers))
    classes = tuple(sorted(numbers))
    rank = np.array([classes.index(name) for name in numbers], dtype=np.int64)
    if classes:
        labels_M = np.where(labels_M == UNLABELLED, UNLABELLED, rank[labels_M])
    return classes, labels_M


def _with_test(given: Dataset, layout: _Layout, request: Request) -> Dataset:
    if (test := layout.test) is None:
        return given
    if test.is_file():
        return _test_from_table(given, test)
    prefix = f"{test.name}/"
    found = _scanned(test, request, prefix)
    classes, labels_T = _class_folders(found.paths)
    if (labels_T == UNLABELLED).any():
        first = found.paths[int((labels_T == UNLABELLED).argmax())]
        raise UserError(f"{test}/{first} is in no class folder: test images need a label")
    sides = torch.from_numpy(np.stack([found.heights_M, found.widths_M], 1))
    return replace(
        given,
        test_images=ImageFiles(test, found.paths),
        test_labels_T=_renumbered(labels_T, classes, given.classes, str(test)),
        test_names=Paths(prefix + path for path in found.paths),
        test_bytes_T=torch.from_numpy(found.bytes_M),
        test_sides_T2=sides,
        bad=(*given.bad, *(Bad(prefix + bad.path, bad.reason) for bad in found.bad)),
        # those of a test folder inside the data are counted there
        notes=(*given.notes, *(() if _is_inside(test, layout.train) else _unread(found))),
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
