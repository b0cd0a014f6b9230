"""Features on disk, found again by what they were made from. Shapes: N images, F features.

They are memory-mapped: a million images take no memory. The folder may be deleted at any time.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from torch import Tensor, nn

from semppl.core.errors import RunError
from semppl.core.rundir import write_text
from semppl.data.images import ImageFiles, Images
from semppl.train.ranks import ALONE, Ranks

VERSION: Final = 1
"""To be raised when images are read or cut in another way."""


@final
class FeatureStore:
    """One file for each combination of weights, images and manner."""

    def __init__(self, folder: Path, ranks: Ranks = ALONE) -> None:
        self._folder, self._ranks = folder, ranks

    def get(self, encoder: nn.Module, images: Images, how: str, make: Callable[[Tensor], bool]) -> Tensor:
        """Those that were made before, or new ones: `make` fills a tensor [N, F] that lies on disk, and says
        whether it is worth keeping for another time.

        `how` says everything that decides on the features besides weights and images. Of several ranks the
        main one writes, and all make them together or read them together.
        """
        ranks = self._ranks
        content = ranks.from_main(self.digest(images) if ranks.main else "")
        facts = f"{VERSION}\n{weights_digest(encoder)}\n{content}\n{how}"
        name = sha256(facts.encode(errors="surrogateescape")).hexdigest()
        path = self._folder / f"{name[:32]}.npy"
        shape = (len(images), int(encoder.num_features))  # type: ignore[arg-type]
        kept = _read(path, shape)
        found = ranks.of_all(kept is not None)
        if kept is not None and all(found):
            return kept
        if found[0] or not ranks.main:  # not on a disk that all can read
            made = torch.empty(shape)
            make(made)
            return made
        try:
            return self._made(path, shape, make)
        except OSError as error:
            raise RunError(
                f"features cannot be kept in {self._folder} ({error.strerror}): make room, or use --no-cache"
            ) from error

    def digest(self, images: Images) -> str:
        """`content_digest`; of files that lie where they lay, as large and as old, it is remembered."""
        if isinstance(images, Tensor):
            return content_digest(images)
        memory = self._folder / f"{_places_digest(images)[:32]}.sha256"
        with suppress(OSError):
            return memory.read_text().strip()
        found = content_digest(images)
        with suppress(OSError):  # it is only for speed
            self._folder.mkdir(parents=True, exist_ok=True)
            write_text(memory, found + "\n")
        return found

    def _made(self, path: Path, shape: tuple[int, int], make: Callable[[Tensor], bool]) -> Tensor:
        self._folder.mkdir(parents=True, exist_ok=True)
        for stale in self._folder.glob(".*.tmp"):  # of a run that was killed
            stale.unlink(missing_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": shape}
                )
                start = file.tell()
                _reserve(file.fileno(), start + 4 * shape[0] * shape[1])
            mapped = np.memmap(temporary, dtype="<f4", mode="r+", offset=start, shape=shape)
            keep = make(torch.from_numpy(mapped))
            mapped.flush()
            # what is mapped stays readable when its name is gone
            made = _read(temporary, shape)
            if keep:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        if made is None:
            raise RunError(f"{path} vanished as soon as it was written")
        return made


def _reserve(file: int, size: int) -> None:
    """Where it can be had, all room at once: a full disk is then an error here, and not a signal later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)


def _read(path: Path, shape: tuple[int, int]) -> Tensor | None:
    """A file that is not whole is as good as none."""
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path, mmap_mode="c")
        if found.shape == shape and found.dtype == np.dtype("<f4"):
            return torch.from_numpy(found)
    return None


def weights_digest(module: nn.Module) -> str:
    """sha256 of the names, shapes and values of all weights and statistics."""
    told = sha256()
    for name, value in module.state_dict().items():
        told.update(f"{name}{tuple(value.shape)}{value.dtype}\n".encode())
        told.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return told.hexdigest()


def content_digest(images: Images) -> str:
    """sha256 of the pixels, or of the bytes of all files in their order; the same wherever they lie."""
    if isinstance(images, Tensor):
        told = sha256(f"{tuple(images.shape)}\n".encode())
        told.update(images.contiguous().numpy().data)
        return told.hexdigest()
    told = sha256()
    for i in range(len(images)):
        try:
            with Path(images.path(i)).open("rb") as file:
                told.update(file_digest(file, "sha256").digest())
        except OSError:
            told.update(b"missing")
    return told.hexdigest()


def _places_digest(files: ImageFiles) -> str:
    """sha256 of their places, sizes and times."""
    told = sha256(f"{files.root.resolve()}\n".encode(errors="surrogateescape"))
    for i, path in enumerate(files.paths):
        told.update(f"{path}\0".encode(errors="surrogateescape"))
        with suppress(OSError):
            facts = os.stat(files.path(i))  # noqa: PTH116 - a million times
            told.update(f"{facts.st_size} {facts.st_mtime_ns}\n".encode())
    return told.hexdigest()
