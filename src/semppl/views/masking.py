"""Saliency masking: the background of large views becomes one grey (paper, appendix on augmentations).

Shapes: B images, C channels, H×W pixels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from semppl.core.rng import uniforms
from semppl.core.share import Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Saliency:
    """When masks are applied."""

    probability: float = 0.1
    """For each large view of each image, independently."""
    min_foreground: float = 0.2
    """An image keeps its background when less than this share of it is foreground."""


def mask_background(
    images_BCHW: Tensor,
    masks_BHW: Tensor,
    saliency: Saliency,
    generator: torch.Generator,
    rows: Rows | int | None = None,
) -> Tensor:
    """Fill the background (mask False) with one grey level per view and image, before any cropping."""
    u_2B = uniforms(2, len(images_BCHW) if rows is None else rows, generator).to(images_BCHW.device)
    enough_B = masks_BHW.float().mean((1, 2)) >= saliency.min_foreground
    apply_B = (u_2B[0] < saliency.probability) & enough_B
    grey_B = (u_2B[1] * 256).floor().to(images_BCHW.dtype)
    background_B1HW = (~masks_BHW & apply_B[:, None, None])[:, None]
    return torch.where(background_B1HW, grey_B[:, None, None, None], images_BCHW)
