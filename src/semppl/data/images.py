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
"""One uint8 image [3,H,W] of any size → one of a fixed size; picklable."""

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
        return torch.full((3, 1, 1), 128, dtype=torch.uint8), str(error)


def batches(
    images: Images, prepare: Prepare, *, batch_size: int = 256, workers: int | None = None
) -> Iterator[Tensor]:
    """uint8 parts in order. A tensor comes as it is; files are read by worker processes and prepared."""
    if isinstance(images, Tensor):
        yield from images.split(batch_size)
        return
    several = usable_cores() if workers is None else workers
    yield from DataLoader(
        _Prepared(images, prepare),
        batch_size=batch_size,
        num_workers=several if len(images) > _FEW else 0,
    )


def gather(images: Images, prepare: Prepare, *, workers: int | None = None) -> Tensor:
    """All of them in one tensor."""
    if isinstance(images, Tensor):
        return images
    return torch.cat(list(batches(images, prepare, workers=workers)))


@final
class _Prepared(TorchDataset[Tensor]):
    def __init__(self, files: ImageFiles, prepare: Prepare) -> None:
        self._files, self._prepare = files, prepare

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Tensor:
        return self._prepare(read_or_grey(self._files.path(index))[0])
