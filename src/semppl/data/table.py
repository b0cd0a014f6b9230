"""Labels from a table: a CSV file with the columns `path` and `label`.

Paths count from the folder of the images. Labels are names, and an empty one means no label. Each mistake is
one line that names the file, the row and the value.
"""

import posixpath
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.listing import READABLE, is_image_name, is_unread_image
from semppl.data.rows import Row, not_utf8, read_rows

_UNREADABLE, _FOR_TESTING = -2, -3
_NAMED: Final = 3


@dataclass(frozen=True)
class LabelTable:
    """What a table says of M images, in the order in which the images were given."""

    classes: tuple[str, ...]
    """Names, sorted."""
    labels_M: NDArray[np.int64]
    """Positions in `classes`, −1 where there is no label."""
    notes: tuple[str, ...]
    """Remarks of one line each."""


def read_labels(
    file: Path,
    root: Path,
    paths: Sequence[str],
    unreadable: Collection[str] = (),
    for_testing: Collection[str] = (),
) -> LabelTable:
    """The labels of the images below `root`.

    `paths` are those of all readable images, relative to `root` and with forward slashes; `unreadable` are
    those of images that exist and cannot be read, and `for_testing` those whose labels must not be used here.
    A path in the table may also start with "./", have backslashes, be absolute, count from the table's own
    folder, or differ in its Unicode normalisation.
    """
    images = _Images(root, file.parent, paths, unreadable, for_testing)
    names: dict[str, int] = {}
    labels, rows = [UNLABELLED] * len(paths), [0] * len(paths)
    empty: list[int] = []
    lost: list[Row] = []
    num_apart = 0
    for row in read_rows(file):
        image = images.find(row.path)
        if image is None:
            raise UserError(f"{file}: {_missing(row, images)}")
        if image == _FOR_TESTING:
            num_apart += 1
        elif not row.label:
            empty.append(image)
        elif image == _UNREADABLE:
            lost.append(row)
        else:
            label = names.setdefault(row.label, len(names))
            if labels[image] not in (UNLABELLED, label):
                earlier = f"row {rows[image]} labels it {list(names)[labels[image]]!r}"
                here = f"row {row.number} labels {row.path!r} {row.label!r}"
                raise UserError(f"{file}: {here}, but {earlier}: keep one of the two")
            rows[image] = rows[image] or row.number
            labels[image] = label
    _require_two(names, rows, file)
    classes = tuple(sorted(names))
    place = {name: label for label, name in enumerate(classes)}
    sorted_C = np.array([*(place[name] for name in names), UNLABELLED], dtype=np.int64)
    num_empty = sum(image != _UNREADABLE and labels[image] == UNLABELLED for image in empty)
    notes = _notes(num_empty, lost, num_apart)
    return LabelTable(
        classes=classes,
        labels_M=sorted_C[np.array(labels, dtype=np.int64)],
        notes=tuple(f"{file.name}: {note}" for note in (*notes, *_look_alikes(classes))),
    )


class _Images:
    """The images below a folder, found by each way in which a path may be written."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        paths: Sequence[str],
        unreadable: Collection[str],
        for_testing: Collection[str],
    ) -> None:
        self.root = root
        self._bases = (root.absolute().as_posix(), folder.absolute().as_posix())
        self._index = dict.fromkeys(unreadable, _UNREADABLE)
        self._index.update(dict.fromkeys(for_testing, _FOR_TESTING))
        self._index.update((path, image) for image, path in enumerate(paths))
        self._real: dict[str, str] = {}

    def find(self, written: str) -> int | None:
        """The position of an image, or that it is unreadable or for testing, or None; the path as written
        comes first.
        """
        if (found := self._index.get(written)) is not None:
            return found
        for path in self._readings(written.strip().replace("\\", "/")):
            found = self._index.get(path, self._composed.get(_composed(path)))
            if found is not None:
                return found
        return None

    def is_outside(self, written: str) -> bool:
        """Whether a path leads out of the folder."""
        path = written.strip().replace("\\", "/")
        return not any(_join(base, path).startswith(self._bases[0] + "/") for base in self._bases)

    def is_of_another_kind(self, written: str) -> bool:
        """Whether a path leads to a file whose suffix is none of those that we read."""
        path = written.strip().replace("\\", "/")
        return not is_image_name(path) and any(map(self._is_file, self._readings(path)))

    def _is_file(self, path: str) -> bool:
        try:
            return (self.root / path).is_file()
        except OSError:  # too long for a name
            return False

    def similar(self, written: str) -> str | None:
        """The only image with the same base name, if there is one."""
        name = _base_name(written.strip().replace("\\", "/"))
        same = [path for path in self._index if _base_name(path) == name]
        return same[0] if len(same) == 1 else None

    @cached_property
    def _composed(self) -> dict[str, int]:
        return {_composed(path): image for path, image in self._index.items() if not path.isascii()}

    def _readings(self, written: str) -> Iterator[str]:
        """From the root, then from the table's folder; as it stands, then with links followed."""
        for base in self._bases if written else ():
            path = _join(base, written)
            folder, _, name = path.rpartition("/")
            yield path.removeprefix(self._bases[0] + "/")
            yield f"{self._follow(folder)}/{name}".removeprefix(self._follow(self._bases[0]) + "/")

    def _follow(self, folder: str) -> str:
        if folder not in self._real:
            try:
                self._real[folder] = Path(folder).resolve().as_posix()
            except (OSError, RuntimeError, ValueError):
                self._real[folder] = folder
        return self._real[folder]


def _join(base: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(base, path))


def _composed(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _base_name(path: str) -> str:
    return _composed(path.rpartition("/")[2]).casefold()


def _missing(row: Row, images: _Images) -> str:
    if not row.path.strip():
        return f"row {row.number} has no path (its label is {row.label!r}): name an image or take the row out"
    if problem := not_utf8(row.number, row.path):
        return problem
    if images.is_of_another_kind(row.path):
        kind = f"files {posixpath.splitext(row.path.strip())[1] or 'without a suffix'} are not read"
        convert = f"convert it {READABLE} or " if is_unread_image(row.path.strip()) else ""
        return f"row {row.number}: {row.path!r}: {kind}: {convert}take the row out"
    what = "label" if row.label else "row"
    where = f"outside {images.root}" if images.is_outside(row.path) else f"no image below {images.root}"
    similar = images.similar(row.path)
    hint = "" if similar is None else f" (perhaps {similar})"
    return (
        f"row {row.number}: {what} for a missing image: {row.path!r} is {where}{hint}: "
        "correct the path or take the row out"
    )


def _require_two(names: Collection[str], rows: list[int], file: Path) -> None:
    if not names:
        raise UserError(f"{file}: no label at all: label images of at least two classes")
    if len(names) == 1:
        first = min(row for row in rows if row)
        raise UserError(
            f"{file}: only one class, {next(iter(names))!r} (row {first} is the first): "
            "at least two are needed"
        )


def _notes(num_empty: int, lost: list[Row], num_apart: int) -> Iterator[str]:
    if num_apart:
        yield counted(
            num_apart,
            "row is of a test image, which is for testing alone",
            "rows are of test images, which are for testing alone",
        )
    if num_empty:
        rows = counted(num_empty, "row has an empty label and counts", "rows have an empty label and count")
        yield f"{rows} as unlabelled"
    if lost:
        images = counted(
            len(lost), "labelled image cannot be read and is", "labelled images cannot be read and are"
        )
        named = "; ".join(f"row {row.number}, {row.path!r}" for row in lost[:_NAMED])
        more = f"; and {len(lost) - _NAMED:,} more" if len(lost) > _NAMED else ""
        yield f"{images} left out: {named}{more}"


def _look_alikes(classes: Sequence[str]) -> Iterator[str]:
    """Names that differ in capitals or blanks alone may be meant so (a and A), and seldom are."""
    alike: dict[str, list[str]] = {}
    for name in classes:
        alike.setdefault(" ".join(name.casefold().split()), []).append(name)
    groups = [" and ".join(map(repr, names)) for names in alike.values() if len(names) > 1]
    if groups:
        more = f"; and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
        yield (
            f"classes that differ in capitals or blanks alone: {'; '.join(groups[:_NAMED])}{more}: "
            "if they are the same, write them alike"
        )
