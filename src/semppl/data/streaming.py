"""The feed for images that do not fit on the device: files are decoded once, all crops cut on the host.

Shapes: B images of a batch, s side of a view.

Workers are processes. Threads would need no shared memory, but on 16 cores Python's lock held them to less
than a quarter of the rate (docs/performance.md).
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from semppl.core.batch import Batch
from semppl.core.cores import usable_cores
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data.images import ImageFiles, read_or_grey
from semppl.data.order import batch_indices
from semppl.data.pace import Pace

Cut = Callable[[Tensor, torch.Generator], list[Tensor]]

# images that a worker hands over at a time: few, so that a batch is made by many workers together
_ROWS: Final = 16
Part = tuple[int, int]
"""(step, first row)."""
Made = tuple[Tensor, list[Tensor], list[str]]
"""Indices, crops of each view, and what went wrong."""


@final
class StreamingFeed:
    """step → Batch. `cut` makes the uint8 crops of one image; it must be picklable.

    Crops are drawn from (seed, step, row, image), so the number of workers changes nothing. Workers run
    ahead, and only uint8 crops travel to the device, on a stream of their own. `waited` adds up the seconds
    that callers had to wait, `unreadable` names files that have gone bad since they were listed; a grey
    image stands for each.
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
        labelled_fraction: float | None = None,
        oracle_M: Tensor | None = None,
    ) -> None:
        self.batch_size, self.num_images, self.waited = batch_size, len(files), 0.0
        self.device, self.workers = device, usable_cores() if workers is None else workers
        self.unreadable: set[str] = set()
        self._labels_M, self._oracle_M = labels_M, oracle_M
        self._parts = _Parts(files, labels_M != UNLABELLED, cut, batch_size, seed, labelled_fraction)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pace = Pace(device)
        self._next_step = -1
        self._made: Iterator[Made] = iter(())

    def __call__(self, step: int) -> Batch:
        """The batch of a step; the same step always gives the same batch. Steps in a row come quickest."""
        self._pace.keep()
        if step != self._next_step:
            self._start_at_(step)
        self._next_step = step + 1
        indices, rows = [], []
        for _ in range(0, self.batch_size, _ROWS):
            clock = time.perf_counter()
            index, crops, problems = next(self._made)
            self.waited += time.perf_counter() - clock
            self.unreadable.update(problems)
            indices.append(index)
            rows.append(self._sent(crops))
        index_B = torch.cat(indices)
        oracle_B = None if self._oracle_M is None else self._sent([self._oracle_M[index_B]])[0]
        labels_B, index_B = self._sent([self._labels_M[index_B], index_B])
        if self._stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._stream)
        return Batch(
            crops=tuple(torch.cat(parts) for parts in zip(*rows, strict=True)),
            labels_B=labels_B,
            index_B=index_B,
            oracle_B=oracle_B,
        )

    def close(self) -> None:
        """Stop the workers."""
        self._made, self._next_step = iter(()), -1

    def _start_at_(self, step: int) -> None:
        self.close()
        with warnings.catch_warnings():
            # more workers than cores are the user's choice
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            loader = DataLoader(
                self._parts,
                sampler=_Onwards(step, self.batch_size),
                batch_size=None,
                num_workers=self.workers,
                prefetch_factor=2 if self.workers else None,
                pin_memory=self._stream is not None,
            )
            self._made = iter(loader)

    def _sent(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        if self._stream is None:
            return list(tensors)
        with torch.cuda.stream(self._stream):
            sent = [tensor.pin_memory().to(self.device, non_blocking=True) for tensor in tensors]
        for tensor in sent:
            tensor.record_stream(torch.cuda.current_stream(self.device))
        return sent


@final
class _Onwards(Sampler[Part]):
    """The parts of a step and of all steps after it."""

    def __init__(self, step: int, batch_size: int) -> None:
        self._step, self._batch_size = step, batch_size

    def __iter__(self) -> Iterator[Part]:
        step = self._step
        while True:
            yield from ((step, row) for row in range(0, self._batch_size, _ROWS))
            step += 1


@final
class _Parts(Dataset[Made]):
    """Runs in a worker."""

    def __init__(
        self,
        files: ImageFiles,
        labelled_M: Tensor,
        cut: Cut,
        batch_size: int,
        seed: int,
        labelled_fraction: float | None,
    ) -> None:
        self._files, self._labelled_M, self._cut = files, labelled_M, cut
        self._batch_size, self._seed, self._fraction = batch_size, seed, labelled_fraction

    def __getitem__(self, part: Part) -> Made:
        step, first = part
        index_B = batch_indices(step, self._batch_size, self._labelled_M, self._seed, self._fraction)
        index_B = index_B[first : first + _ROWS]
        rows, problems = [], []
        for row, index in enumerate(index_B.tolist(), start=first):
            image, problem = read_or_grey(self._files.path(index))
            problems += [problem] if problem else []
            # a batch across an epoch's edge may hold an image twice: its row tells the two apart
            rows.append(self._cut(image, generator(self._seed, f"geometry/{row}/{index}", step)))
        return index_B, [torch.stack(crops) for crops in zip(*rows, strict=True)], problems
