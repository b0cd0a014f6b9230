"""The feed for images that do not fit on the device: files are decoded once, all crops cut on the host.

Shapes: B images of a batch, s side of a view.

Workers are processes. Threads would need no shared memory, but on 16 cores Python's lock held them to less
than a quarter of the rate (docs/performance.md).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.cores import usable_cores
from semppl.core.rng import generator
from semppl.core.share import WHOLE, Rows, Share
from semppl.data.images import ImageFiles, read_or_grey
from semppl.data.masks import MaskFiles, read_or_absent
from semppl.data.order import NATURAL, Mixture, Order
from semppl.data.pace import Pace
from semppl.data.readers import Made, Part, Readers, read_here

Cut = Callable[[Tensor, torch.Generator], list[Tensor]]
CutMasked = Callable[[Tensor, torch.Generator, Callable[[], Tensor | None]], list[Tensor]]
"""The same with somebody who brings the image's mask, if it is wanted; None where it cannot be had."""

# images that a worker hands over at a time: few, so that a batch is made by many workers together
_ROWS: Final = 16


@final
@dataclass(frozen=True)
class Masked:
    """Masks of the images, and how those that have one are cut; picklable."""

    files: MaskFiles
    cut: CutMasked


@final
class StreamingFeed:
    """step → Batch. `cut` makes the uint8 crops of one image; it must be picklable.

    Crops are drawn from (seed, step, row, image), so the number of workers changes nothing, and neither does
    the number of processes that share a batch: each has the crops of its `share` and the labels of all.
    Workers run ahead, and only uint8 crops travel to the device, on a stream of their own. `waited` adds up
    the seconds that callers had to wait, `unreadable` names files that have gone bad since they were listed;
    a grey image stands for each, and nothing for a mask. `incidents` tells of workers that died and were
    replaced; when nothing has come from them for `patience` seconds, a RunError says what they are at.
    """

    def __init__(
        self,
        files: ImageFiles,
        labels_M: Tensor,
        cut: Cut,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        workers: int | None = None,
        mixture: Mixture = NATURAL,
        oracle_M: Tensor | None = None,
        share: Share = WHOLE,
        patience: float = 600.0,
        masked: Masked | None = None,
    ) -> None:
        self.batch_size, self.num_images, self.waited = batch_size, len(files), 0.0
        self.device, self.workers = device, usable_cores() if workers is None else workers
        self.unreadable: set[str] = set()
        self.incidents: list[str] = []
        self._labels_M, self._oracle_M = labels_M, oracle_M
        self._rows, self._patience = share.rows(batch_size), patience
        self._order = Order(labels_M, batch_size=batch_size, seed=seed, mixture=mixture)
        self._read = _Read(files, cut, seed, masked)
        self._like = cut(torch.zeros(3, 1, 1, dtype=torch.uint8), generator(seed, "geometry"))
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pace = Pace(device)
        self._next_step = -1
        self._made: Iterator[Made] = iter(())

    def __call__(self, step: int) -> Batch:
        """The batch of a step; the same step always gives the same batch. Steps in a row come quickest."""
        self._pace.keep()
        if step != self._next_step:
            self._start_at_(step)
        self._next_step = -1
        with torch.cuda.stream(self._stream):
            crops = [
                like.new_empty((len(self._rows), *like.shape), device=self.device) for like in self._like
            ]
        for first in range(0, len(self._rows), _ROWS):
            clock = time.perf_counter()
            made, problems = next(self._made)
            self.waited += time.perf_counter() - clock
            self.unreadable.update(problems)
            for whole, part in zip(crops, made, strict=True):
                self._send_(part, whole[first : first + _ROWS])
        self._next_step = step + 1
        return self._batch(crops, self._order(step))

    def close(self) -> None:
        """Stop the workers."""
        if isinstance(self._made, Readers):
            self._made.close()
        self._made, self._next_step = iter(()), -1

    def _start_at_(self, step: int) -> None:
        self.close()
        parts = _parts(step, self._rows, self._order)
        if not self.workers or not len(self._rows):
            self._made = read_here(self._read, parts)
            return
        self._made = Readers(
            self._read,
            parts,
            self._like,
            rows=_ROWS,
            workers=self.workers,
            patience=self._patience,
            name=self._read.files.path,
            incidents=self.incidents,
        )

    def _batch(self, crops: list[Tensor], index_B: Tensor) -> Batch:
        known = [index_B, self._labels_M[index_B]]
        known += [] if self._oracle_M is None else [self._oracle_M[index_B]]
        with torch.cuda.stream(self._stream):
            sent = [torch.empty_like(tensor, device=self.device) for tensor in known]
        for tensor, place in zip(known, sent, strict=True):
            self._send_(tensor, place)
        if self._stream is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self._stream)
            for tensor in (*crops, *sent):
                tensor.record_stream(current)
        return Batch(tuple(crops), sent[1], sent[0], sent[2] if len(sent) > 2 else None)

    def _send_(self, tensor: Tensor, place: Tensor) -> None:
        """Copied when this returns, so its memory may be filled anew; on the device a little later."""
        if self._stream is None:
            place.copy_(tensor)
            return
        with torch.cuda.stream(self._stream):
            place.copy_(tensor.pin_memory(), non_blocking=True)


def _parts(step: int, rows: Rows, order: Callable[[int], Tensor]) -> Iterator[Part]:
    """Of a step and of all steps after it."""
    for later in count(step):
        index_B = order(later)
        for first in range(rows.start, rows.stop, _ROWS):
            yield Part(later, first, index_B[first : min(first + _ROWS, rows.stop)].tolist())


@final
@dataclass(frozen=True)
class _Read:
    """One image of a batch; runs in a worker."""

    files: ImageFiles
    cut: Cut
    seed: int
    masked: Masked | None

    def __call__(self, step: int, row: int, image: int) -> tuple[list[Tensor], str]:
        pixels, problem = read_or_grey(self.files.path(image))
        # a batch across an epoch's edge may hold an image twice: its row tells the two apart
        rng = generator(self.seed, f"geometry/{row}/{image}", step)
        mask = None if self.masked is None or problem else self.masked.files.path(image)
        if self.masked is None or mask is None:
            return self.cut(pixels, rng), problem
        look = _Look(mask, pixels)
        return self.masked.cut(pixels, rng, look), look.problem


@final
class _Look:
    """Reads the mask of an image; `problem` tells why it could not."""

    def __init__(self, path: str, image_3HW: Tensor) -> None:
        self.problem = ""
        self._path, self._size = path, (image_3HW.shape[1], image_3HW.shape[2])

    def __call__(self) -> Tensor | None:
        mask_HW, self.problem = read_or_absent(self._path, self._size)
        return None if mask_HW is None else torch.from_numpy(mask_HW)
