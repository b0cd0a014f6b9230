"""A set of images of which few have labels. Shapes: M images, T test images, C channels, H×W pixels."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import torch
from torch import Tensor

from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED


@dataclass(frozen=True)
class Dataset:
    """Images in memory. `labels_M` holds what training may know; withheld truth is in `hidden` or nowhere."""

    name: str
    images_M3HW: Tensor
    labels_M: Tensor
    names: tuple[str, ...]
    classes: tuple[str, ...]
    hidden: HiddenLabels | None = None
    oracle_M: Tensor | None = None
    """True labels of all images: filled for the oracle ablation alone."""
    masks_MHW: Tensor | None = None
    test_images_T3HW: Tensor | None = None
    test_labels_T: Tensor | None = None

    @cached_property
    def labelled_L(self) -> Tensor:
        """Indices of the images with a label."""
        return (self.labels_M != UNLABELLED).nonzero().squeeze(1)

    @property
    def size(self) -> int:
        """The longer side in pixels."""
        return max(self.images_M3HW.shape[2:])

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the training pixels."""
        return sha256(self.images_M3HW.contiguous().numpy().data).hexdigest()

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, for images in [0, 1]."""
        level = torch.arange(256, dtype=torch.double)
        means, deviations = [], []
        for channel_MHW in self.images_M3HW.unbind(1):
            count = torch.bincount(channel_MHW.flatten(), minlength=256).double()
            mean = (count * level).sum() / count.sum()
            means.append(mean / 255)
            deviations.append(((count * (level - mean) ** 2).sum() / (count.sum() - 1)).sqrt() / 255)
        return torch.stack(means).float(), torch.stack(deviations).float().clamp(min=1e-3)

    def describe(self) -> str:
        """One line for people."""
        num_labelled = len(self.labelled_L)
        test = "" if self.test_labels_T is None else f", {len(self.test_labels_T):,} for testing"
        height, width = self.images_M3HW.shape[2:]
        return (
            f"{self.name}: {len(self.labels_M):,} images of {height}×{width} px, "
            f"{num_labelled:,} labelled in {len(self.classes)} classes{test}"
        )
