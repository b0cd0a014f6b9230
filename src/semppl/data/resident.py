"""The feed for sets that fit into the device's memory: pixels stay there, geometry happens there.

Shapes: B images of a batch, C channels, H×W pixels.
"""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data.dataset import Dataset
from semppl.data.order import batch_indices

Cut = Callable[[Tensor, Tensor | None, torch.Generator], tuple[Tensor, ...]]


@final
class ResidentFeed:
    """step → Batch. `cut` makes the uint8 crops of all views from images, masks and a generator."""

    def __init__(
        self,
        dataset: Dataset,
        cut: Cut,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        labelled_fraction: float | None = None,
    ) -> None:
        self.batch_size, self._seed, self._device, self._cut = batch_size, seed, device, cut
        self._labelled_fraction = labelled_fraction
        self.num_images = len(dataset.labels_M)
        self._labelled_M = dataset.labels_M != UNLABELLED
        self._images = dataset.images_M3HW.to(device)
        self._labels = dataset.labels_M.to(device)
        self._masks = None if dataset.masks_MHW is None else dataset.masks_MHW.to(device)
        self._oracle = None if dataset.oracle_M is None else dataset.oracle_M.to(device)

    def __call__(self, step: int) -> Batch:
        """The batch of a step; the same step always gives the same batch."""
        index_B = batch_indices(step, self.batch_size, self._labelled_M, self._seed, self._labelled_fraction)
        index_B = index_B.to(self._device)
        masks_BHW = None if self._masks is None else self._masks[index_B]
        rng = generator(self._seed, "geometry", step, self._device)
        return Batch(
            crops=self._cut(self._images[index_B], masks_BHW, rng),
            labels_B=self._labels[index_B],
            index_B=index_B,
            oracle_B=None if self._oracle is None else self._oracle[index_B],
        )
