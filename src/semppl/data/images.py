"""Where the pixels of a data set are: in one tensor, or in files that are read when they are needed.

Shapes: N images, H×W pixels, s side of what `prepare` makes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from semppl.core.cores import usable_cores
from semppl.core.errors import UserError
from semppl.data.image import read_image
from semppl.data.paths import Paths

Prepare = Callable[[Tensor], Tensor]
"""One uint8 image [3,H,W] of any size, or many of one size → of a fixed size; picklable."""

# below this many files starting workers takes longer than they save
_FEW: Final = 256


@final
@dataclass(frozen=True)
class ImageFiles:
    """Files below a folder; reading them is left to workers."""

    root: Path
    paths: Paths
    """Relative to the folder."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index_N: Tensor) -> "ImageFiles":
        """Some of them, in the order asked for."""
        return ImageFiles(self.root, self.paths.take(index_N.numpy()))

    def path(self, index: int) -> str:
        """Where one of them lies."""
        return str(self.root / self.paths[index])


Images: TypeAlias = Tensor | ImageFiles
"""uint8 [N,3,H,W], or files."""


def read_or_grey(path: str) -> tuple[Tensor, str]:
    """An image, or one grey pixel and what is wrong with the file.

    Files were checked before; one that goes bad during hours of training must not end them.
    """
    try:
        return read_image(path), ""
    except UserError as error:
        return _grey(), str(error)


def _grey() -> Tensor:
    return torch.full((3, 1, 1), 128, dtype=torch.uint8)


def batches(
    images: Images,
    prepare: Prepare,
    *,
    batch_size: int = 256,
    workers: int | None = None,
    problems: set[str] | None = None,
) -> Iterator[Tensor]:
    """uint8 parts in order, prepared; files are read by worker processes.

    A file that cannot be read is grey; `problems` gets to know of it.
    """
    if isinstance(images, Tensor):
        yield from (prepare(part) for part in images.split(batch_size))
        return
    several = usable_cores() if workers is None else workers
    for part, wrong in DataLoader(
        _Prepared(images, prepare),
        batch_size=batch_size,
        num_workers=several if len(images) > _FEW else 0,
        collate_fn=_collated,
    ):
        if problems is not None:
            problems.update(wrong)
        yield part


def gather(
    images: Images,
    prepare: Prepare,
    *,
    workers: int | None = None,
    problems: set[str] | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> Tensor:
    """All of them in one tensor, of none an empty one of the shape that `prepare` makes; `advance` hears how
    many are done, and how many there are.
    """
    parts, done = list[Tensor](), 0
    for part in batches(images, prepare, workers=workers, problems=problems):
        parts.append(part)
        done += len(part)
        if advance is not None:
            advance(done, len(images))
    return torch.cat(parts) if parts else prepare(_grey())[None][:0]


def _collated(rows: list[tuple[Tensor, str]]) -> tuple[Tensor, list[str]]:
    return torch.stack([image for image, _ in rows]), [problem for _, problem in rows if problem]


@final
class _Prepared(TorchDataset[tuple[Tensor, str]]):
    def __init__(self, files: ImageFiles, prepare: Prepare) -> None:
        self._files, self._prepare = files, prepare

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        image, problem = read_or_grey(self._files.path(index))
        return self._prepare(image), problem
