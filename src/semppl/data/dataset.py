"""A set of images of which few have labels. Shapes: M images, T test images, C channels, H×W pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as V

from semppl.core.counted import counted
from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.data.images import Images, gather
from semppl.data.masks import MaskFiles
from semppl.data.scan import Bad

# images that stand for a set of files when its colours are measured
_SAMPLE: Final = 1024


@dataclass(frozen=True)
class Dataset:
    """`labels_M` holds what training may know; withheld truth is in `hidden` or nowhere."""

    name: str
    images: Images
    labels_M: Tensor
    names: Sequence[str]
    classes: tuple[str, ...]
    hidden: HiddenLabels | None = None
    oracle_M: Tensor | None = None
    """True labels of all images: filled for the oracle ablation alone."""
    masks_MHW: Tensor | None = None
    """True in the foreground, and everywhere in an image whose mask is absent."""
    mask_files: MaskFiles | None = None
    """Masks of files, which are read when one is wanted."""
    masks_place: str | None = None
    """The folder in which masks were looked for."""
    mask_bytes_M: Tensor | None = None
    """Lengths of the masks' files in that folder, 0 where an image has none."""
    held_out_M: Tensor | None = None
    """Given labels that are set aside for validation, −1 elsewhere; training does not look here."""
    test_images: Images | None = None
    test_labels_T: Tensor | None = None
    test_names: Sequence[str] | None = None
    sides_M2: Tensor | None = None
    """Height and width of each file's image, where they are known."""
    test_sides_T2: Tensor | None = None
    file_bytes_M: Tensor | None = None
    """Lengths of the files."""
    test_bytes_T: Tensor | None = None
    bad: tuple[Bad, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Names of images that are grey, for their files could not be read, and what is wrong with these."""
    notes: tuple[str, ...] = ()
    """Lines that the user should read."""

    @cached_property
    def labelled_L(self) -> Tensor:
        """Indices of the images with a label."""
        return (self.labels_M != UNLABELLED).nonzero().squeeze(1)

    @cached_property
    def validation_V(self) -> Tensor:
        """Indices of the images whose label is set aside."""
        if self.held_out_M is None:
            return torch.empty(0, dtype=torch.long)
        return (self.held_out_M != UNLABELLED).nonzero().squeeze(1)

    @property
    def size(self) -> int:
        """The longer side in pixels where all are equal, the shorter one of a typical file otherwise."""
        if isinstance(self.images, Tensor):
            return max(self.images.shape[2:])
        return 224 if self.sides_M2 is None else int(self.sides_M2.min(1).values.median())

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the training pixels; of files, their names and sizes, so that it costs no reading."""
        return self._told(self.images, self.file_bytes_M)

    @cached_property
    def masks_fingerprint(self) -> str | None:
        """The same of the masks, whose files go by the names of their images; None where there are none."""
        if self.masks_MHW is None and self.mask_bytes_M is None:
            return None
        return self._told(self.masks_MHW, self.mask_bytes_M)

    def _told(self, pixels: Images | None, bytes_M: Tensor | None) -> str:
        if isinstance(pixels, Tensor) and bytes_M is None:
            return sha256(pixels.contiguous().numpy().data).hexdigest()
        told = sha256()
        sizes = bytes_M.tolist() if bytes_M is not None else [0] * len(self.names)
        for name, size in zip(self.names, sizes, strict=True):
            told.update(f"{name}\0{size}\n".encode(errors="surrogateescape"))
        return told.hexdigest()

    @cached_property
    def _sample(self) -> Tensor:
        """Pixels to measure colours on: all, or those of a thousand files."""
        if isinstance(self.images, Tensor):
            return self.images
        return gather(self.images[evenly(torch.arange(len(self.images)), _SAMPLE)], _thumbnail)

    @cached_property
    def grey(self) -> bool:
        """Whether no image has colours."""
        part = self._sample[evenly(torch.arange(len(self._sample)), _SAMPLE)]
        return bool((part[:, :1] == part).all())

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, for images in [0, 1]."""
        level = torch.arange(256, dtype=torch.double)
        means, deviations = [], []
        for channel_MHW in self._sample.unbind(1):
            count = torch.bincount(channel_MHW.flatten(), minlength=256).double()
            mean = (count * level).sum() / count.sum()
            means.append(mean / 255)
            variance = (count * (level - mean) ** 2).sum() / (count.sum() - 1).clamp(min=1)
            deviations.append(variance.sqrt() / 255)
        return torch.stack(means).float(), torch.stack(deviations).float().clamp(min=1e-3)

    def describe(self) -> str:
        """One line for people."""
        size = ""
        if isinstance(self.images, Tensor):
            size = " of {}×{} px".format(*reversed(self.images.shape[2:]))
        parts = [
            f"{counted(len(self.labels_M), 'image')}{size}",
            f"{len(self.labelled_L):,} labelled in {counted(len(self.classes), 'class', 'classes')}",
        ]
        if len(self.validation_V):
            parts.append(f"{counted(len(self.validation_V), 'more label')} held out for validation")
        if self.test_labels_T is not None:
            parts.append(f"{len(self.test_labels_T):,} for testing")
        if self.bad:
            parts.append(f"{len(self.bad):,} unreadable: see bad_files.csv")
        return f"{self.name}: {', '.join(parts)}"


def evenly(index_N: Tensor, most: int) -> Tensor:
    """At most `most` of them, spread over the whole: sorted data show all their classes."""
    if len(index_N) <= most:
        return index_N
    # in float32 two of many would round to the same place
    return index_N[torch.linspace(0, len(index_N) - 1, most, dtype=torch.float64).round().long()]


def _thumbnail(image_3HW: Tensor) -> Tensor:
    return V.resize(image_3HW, [64, 64], antialias=True)
