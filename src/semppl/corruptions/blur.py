"""Blurs of ImageNet-C: defocus, glass, motion and zoom. Shapes: H×W pixels in [0, 1], P points.

Lengths are stated in pixels of an image of 224 px, as published, and scaled to the image at hand.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.corruptions.filters import (
    convolve,
    gaussian_kernel,
    kernel_of,
    pixel_scale,
    trail_kernel,
    warp,
)

_RADIUS: Final = (3, 4, 6, 8, 10)
# σ of the blur before and after, farthest shift, how often pixels are shifted
_GLASS: Final = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
# length of the trail, σ of its fading
_MOTION: Final = ((20, 3), (30, 5), (30, 8), (30, 12), (40, 15))
# step between magnifications, number of them
_ZOOM: Final = ((0.01, 11), (0.01, 16), (0.02, 11), (0.02, 13), (0.03, 11))


def defocus_blur(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """Every point becomes a disc."""
    radius = _RADIUS[severity - 1] * pixel_scale(x_3HW)
    side_S = torch.linspace(-radius, radius, 2 * math.ceil(radius) + 17)
    points_P2 = torch.cartesian_prod(side_S, side_S)
    points_P2 = points_P2[points_P2.norm(dim=1) <= radius]
    return convolve(x_3HW, kernel_of(points_P2, torch.ones(len(points_P2))))


def glass_blur(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Seen through frosted glass: blurred, every grain fetched from somewhere near, blurred again.

    The original's grains are pixels and it moves them one after another; here all move at once, and in a
    large image a grain is as many pixels as one of 224 px would have become.
    """
    sigma, farthest, times = _GLASS[severity - 1]
    scale, (height, width) = pixel_scale(x_3HW), x_3HW.shape[-2:]
    kernel = gaussian_kernel(sigma * scale)
    grain = max(1.0, scale)
    grains = (math.ceil(height / grain), math.ceil(width / grain))
    x_3HW = convolve(x_3HW, kernel)
    for _ in range(times):
        shift_2hw = 2 * torch.rand(2, *grains, generator=generator) - 1
        shift_2HW = F.interpolate(shift_2hw[None], (height, width), mode="nearest-exact")[0]
        x_3HW = warp(x_3HW, farthest * scale * shift_2HW)
    return convolve(x_3HW, kernel)


def motion_blur(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Every point leaves a trail, at most 45° from the horizontal."""
    length, sigma = _MOTION[severity - 1]
    scale = pixel_scale(x_3HW)
    angle = math.radians(90 * torch.rand((), generator=generator).item() - 45)
    return convolve(x_3HW, trail_kernel(length * scale, sigma * scale, angle))


def zoom_blur(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """The mean of the image and of magnifications of its middle, the first of them by 1; no lengths."""
    step, times = _ZOOM[severity - 1]
    height, width = x_3HW.shape[-2:]
    from_middle = (torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2)
    from_middle_2HW = torch.stack(torch.meshgrid(*from_middle, indexing="ij"))
    total_3HW = 2 * x_3HW
    for i in range(1, times):
        total_3HW = total_3HW + warp(x_3HW, (1 / (1 + i * step) - 1) * from_middle_2HW)
    return total_3HW / (times + 1)
