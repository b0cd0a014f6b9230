"""Which images of a set have a mask in a folder; what is missing or of no use is named.

Shapes: M images, N of them with a mask, H×W pixels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.errors import UserError
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles, batches
from semppl.data.masks import (
    ABSENT,
    NO_MASKS,
    OWN_MASKS,
    MaskFiles,
    array_mask_name,
    default_place,
    file_mask_name,
    fits,
    fitted,
    folder_of,
    foreground_of,
    in_words,
    other_mask_name,
)
from semppl.data.paths import Paths
from semppl.data.request import Request
from semppl.data.scan import Scan, scan

_NAMED: Final = 3
_NOWHERE: Final = -1


def with_masks(dataset: Dataset, request: Request) -> Dataset:
    """The set with the masks that were asked for: its own ones, those of a folder, or none."""
    if request.masks == NO_MASKS:
        return replace(dataset, masks_MHW=None)
    own = dataset.masks_MHW is not None
    if request.masks == OWN_MASKS and not own and Path(OWN_MASKS).is_dir():
        note = (
            f"masks: {OWN_MASKS} are those in a file of images, and there are none: a folder of this name is"
        )
        return replace(dataset, notes=(*dataset.notes, f"{note} --masks ./{OWN_MASKS}"))
    if request.masks == OWN_MASKS or (request.masks is None and own):
        return dataset
    place = _place(request)
    return dataset if place is None else _searched(replace(dataset, masks_MHW=None), place, request)


def masks_in_memory(dataset: Dataset, request: Request) -> Dataset:
    """Masks of pixels that are in memory are kept there, too; all foreground where there is none."""
    files, images = dataset.mask_files, dataset.images
    if files is None or not isinstance(images, Tensor):
        return dataset
    height, width = images.shape[2:]
    masks_MHW = torch.ones(len(images), height, width, dtype=torch.bool)
    index_N, problems, done = files.present_N, set[str](), 0
    advance = request.told("reading masks")
    parts = batches(
        ImageFiles(files.root, files.paths.take(index_N)),
        partial(_as_mask, (height, width)),
        workers=request.workers,
        problems=problems,
    )
    for part in parts:
        masks_MHW[torch.from_numpy(index_N[done : done + len(part)])] = part
        done += len(part)
        advance(done, len(index_N))
    notes = [f"mask {problem}{ABSENT}" for problem in sorted(problems)]
    return replace(dataset, masks_MHW=masks_MHW, mask_files=None, notes=(*dataset.notes, *notes))


def _as_mask(size: tuple[int, int], image_3HW: Tensor) -> Tensor:
    """All foreground where a file has gone bad meanwhile, and one grey pixel stands for it."""
    mask_HW = fitted(foreground_of(image_3HW.permute(1, 2, 0).numpy()), size)
    return torch.ones(size, dtype=torch.bool) if mask_HW is None else torch.from_numpy(mask_HW)


def _place(request: Request) -> Path | None:
    """A folder that was named must be there; the default one may."""
    if request.masks is None:
        place = default_place(request.source, request.root)
        return place if place.is_dir() else None
    place = Path(request.masks).absolute()
    if not place.is_dir():
        raise UserError(
            f"--masks {request.masks}: no such folder: say where the masks are; a new run can do without "
            "by --masks none"
        )
    return place


def _searched(dataset: Dataset, place: Path, request: Request) -> Dataset:
    folder = folder_of(place)
    found = _scanned(folder, request)
    names = _names(dataset, request.source)
    if found is None:
        note = f"masks: there is none in {place}: no background is removed"
        return replace(
            dataset,
            masks_place=str(place),
            mask_bytes_M=torch.zeros(len(dataset.labels_M), dtype=torch.long),
            notes=(*dataset.notes, note),
        )
    match = _matched(names, found)
    match.compare_(found, _sides(dataset))
    note = match.describe(dataset.names, place, next(iter(_names(dataset, request.source)))[0])
    files = MaskFiles(folder, Paths(found.paths[row] if row >= 0 else "" for row in match.row_M.tolist()))
    return replace(
        dataset,
        mask_files=files if len(files.present_N) else None,
        masks_place=str(place),
        mask_bytes_M=torch.from_numpy(np.append(found.bytes_M, 0)[match.row_M]),  # nowhere is the last
        notes=(*dataset.notes, note),
    )


def _scanned(folder: Path, request: Request) -> Scan | None:
    """What lies there; a folder without any image has no masks."""
    try:
        return scan(folder, workers=request.workers, advance=request.told("looking at masks"))
    except UserError:
        return None


def _names(dataset: Dataset, source: str) -> Iterator[Sequence[str]]:
    """What the mask of each image may be called, below the folder of masks."""
    if not isinstance(dataset.images, ImageFiles):
        yield from ((array_mask_name(index),) for index in range(len(dataset.images)))
        return
    below, root = "", dataset.images.root
    if root.is_relative_to(source) and root != Path(source):
        below = f"{root.relative_to(source).as_posix()}/"
    for path in dataset.images.paths:
        yield file_mask_name(below + path), other_mask_name(below + path)


def _sides(dataset: Dataset) -> NDArray[np.int64] | None:
    """Height and width of each image, where they are known."""
    if isinstance(dataset.images, Tensor):
        return np.broadcast_to(dataset.images.shape[2:], (len(dataset.images), 2))
    return None if dataset.sides_M2 is None else dataset.sides_M2.numpy()


@final
@dataclass(eq=False)
class _Match:
    """The mask of each image as a row of what was found, and the images that have none, with the reason."""

    row_M: NDArray[np.int64]
    missing: list[tuple[int, str]] = field(default_factory=list)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    strange: list[tuple[int, str]] = field(default_factory=list)

    def compare_(self, found: Scan, sides_M2: NDArray[np.int64] | None) -> None:
        """Masks of another size than their image are not taken."""
        if sides_M2 is None:
            return
        index_N = np.flatnonzero(self.row_M != _NOWHERE)
        sizes_N2 = np.stack([found.heights_M, found.widths_M], 1)[self.row_M[index_N]]
        other_N = (sizes_N2 != sides_M2[index_N]).any(1)
        for index, (high, wide) in zip(index_N[other_N].tolist(), sizes_N2[other_N].tolist(), strict=True):
            height, width = sides_M2[index].tolist()
            if not fits((high, wide), (height, width)):
                words = f"{in_words((high, wide))}, the image is {in_words((height, width))}"
                self.strange.append((index, words))
                self.row_M[index] = _NOWHERE

    def describe(self, names: Sequence[str], place: Path, first: str) -> str:
        """In one line."""
        total, have = len(self.row_M), int((self.row_M != _NOWHERE).sum())
        if len(self.missing) == total:
            return f"masks: no image has one in {place} (looked for {first}, …): no background is removed"
        line = f"masks: {have:,} of {total:,} images have one in {place}"
        kinds = {
            "missing for": self.missing,
            "unreadable for": self.unreadable,
            "of another size for": self.strange,
        }
        parts = [f"; {kind} {len(rows):,}: {_listed(rows, names)}" for kind, rows in kinds.items() if rows]
        return line + "".join(parts)


def _matched(names: Iterable[Sequence[str]], found: Scan) -> _Match:
    rows: Mapping[str, int] = {path: row for row, path in enumerate(found.paths)}
    wrong = {bad.path: bad.reason for bad in found.bad}
    match = _Match(np.empty(0, np.int64))
    row_M = []
    for index, candidates in enumerate(names):
        name = next((each for each in candidates if each in rows or each in wrong), None)
        row_M.append(_NOWHERE if name is None else rows.get(name, _NOWHERE))
        if name is None:
            match.missing.append((index, ""))
        elif name in wrong:
            match.unreadable.append((index, wrong[name]))
    match.row_M = np.array(row_M, np.int64)
    return match


def _listed(rows: Sequence[tuple[int, str]], names: Sequence[str]) -> str:
    listed = [f"{names[index]} ({why})" if why else names[index] for index, why in rows[:_NAMED]]
    return ", ".join(listed) + (", …" if len(rows) > _NAMED else "")
