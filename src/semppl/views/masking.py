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
    u_2B = uniforms(2, len(images_BCHW) if rows is None else rows, generator)
    return fill_background(images_BCHW, removable(masks_BHW, saliency), u_2B, saliency)


def removable(masks_BHW: Tensor, saliency: Saliency) -> Tensor:
    """The background of images that have enough foreground, measured on the whole image: bool [B,H,W]."""
    pixels = masks_BHW.shape[1] * masks_BHW.shape[2]
    foreground_B = torch.count_nonzero(masks_BHW, dim=(1, 2)).double() / pixels
    return ~masks_BHW & (foreground_B >= saliency.min_foreground)[:, None, None]


def fill_background(images_BCHW: Tensor, removable_BHW: Tensor, u_2B: Tensor, saliency: Saliency) -> Tensor:
    """One view: numbers in [0, 1) say where the background goes, and which grey comes in its place."""
    u_2B = u_2B.to(images_BCHW.device)
    apply_B, grey_B = u_2B[0] < saliency.probability, grey_levels(u_2B[1])
    background_B1HW = (removable_BHW & apply_B[:, None, None])[:, None]
    return torch.where(background_B1HW, grey_B[:, None, None, None], images_BCHW)


def grey_levels(u: Tensor) -> Tensor:
    """All 256 alike, from numbers in [0, 1)."""
    return (u * 256).floor().to(torch.uint8)
