"""The feed for sets that fit into the device's memory: pixels stay there, geometry happens there.

Shapes: B images of a batch, C channels, H×W pixels.
"""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.rng import generator
from semppl.core.share import WHOLE, Rows, Share
from semppl.data.dataset import Dataset
from semppl.data.order import NATURAL, Mixture, Order
from semppl.data.pace import Pace

Cut = Callable[[Tensor, Tensor | None, torch.Generator, Rows], tuple[Tensor, ...]]


@final
class ResidentFeed:
    """step → Batch. `cut` makes the uint8 crops of all views from images, masks and a generator, and hears
    which rows of the batch they are.
    """

    def __init__(
        self,
        dataset: Dataset,
        cut: Cut,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        mixture: Mixture = NATURAL,
        share: Share = WHOLE,
    ) -> None:
        self._rows = share.rows(batch_size)
        self.batch_size, self._seed, self._device, self._cut = batch_size, seed, device, cut
        self.waited = 0.0
        # pixels in memory neither die nor go bad: as the streaming feed, with nothing to tell
        self.incidents, self.unreadable = list[str](), set[str]()
        self.num_images = len(dataset.labels_M)
        self._order = Order(dataset.labels_M, batch_size=batch_size, seed=seed, mixture=mixture)
        if not isinstance(dataset.images, Tensor):
            raise TypeError("files are for the streaming feed")
        self.images = dataset.images.to(device)
        self._labels = dataset.labels_M.to(device)
        self._masks = None if dataset.masks_MHW is None else dataset.masks_MHW.to(device)
        self._oracle = None if dataset.oracle_M is None else dataset.oracle_M.to(device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pace = Pace(device)
        self._next: tuple[int, Batch, torch.cuda.Event] | None = None

    def __call__(self, step: int) -> Batch:
        """The batch of a step; the same step always gives the same batch.

        On a GPU the next one is made beside the step that uses this one.
        """
        if self._stream is None:
            return self.make(step)
        self._pace.keep()
        current = torch.cuda.current_stream(self._device)
        if self._next is None or self._next[0] != step:
            self._next = self._make_beside(step, current)
        _, batch, made = self._next
        current.wait_event(made)
        for tensor in (*batch.crops, batch.labels_B, batch.index_B, batch.oracle_B):
            if tensor is not None:
                tensor.record_stream(current)
        self._next = self._make_beside(step + 1, current)
        return batch

    def close(self) -> None:
        """There is nothing to end."""

    def _make_beside(self, step: int, current: torch.cuda.Stream) -> tuple[int, Batch, torch.cuda.Event]:
        if self._stream is None:
            raise AssertionError("streams belong to GPUs")
        # not before the steps so far are done: one batch ahead is enough
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            batch, made = self.make(step), torch.cuda.Event()
            made.record(self._stream)
        return step, batch, made

    def make(self, step: int) -> Batch:
        """The same batch, here and now."""
        index_B = self._order(step)
        if self._stream is not None:
            # from pageable memory the host would wait for everything before it
            index_B = index_B.pin_memory().to(self._device, non_blocking=True)
        mine_b = index_B[self._rows.slice]
        masks_bHW = None if self._masks is None else self._masks[mine_b]
        rng = generator(self._seed, "geometry", step, self._device)
        return Batch(
            crops=self._cut(self.images[mine_b], masks_bHW, rng, self._rows),
            labels_B=self._labels[index_B],
            index_B=index_B,
            oracle_B=None if self._oracle is None else self._oracle[index_B],
        )
