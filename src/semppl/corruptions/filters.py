"""What corruptions blur and warp with: a convolution and a displacement.

Shapes: C channels, H×W pixels, K×K kernel, P points. Images are floats. Beyond its edge an image goes on as
its own mirror image, so that nothing grows dark there and even one pixel has neighbours.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

# the shorter side for which ImageNet-C states its lengths
REFERENCE: Final = 224
# smaller images get the lengths of this one: below it they are too small a part of a pixel to be seen
_SMALLEST: Final = 32


def pixel_scale(x_CHW: Tensor) -> float:
    """Pixels of this image for each pixel of ImageNet-C's images of 224 px."""
    return max(min(x_CHW.shape[-2:]), _SMALLEST) / REFERENCE


def convolve(x_CHW: Tensor, kernel_KK: Tensor) -> Tensor:
    """Each pixel's light is spread out as the kernel says.

    By Fourier transforms, because the kernels grow with the image: 181×181 for a photograph of 2000 px.
    """
    _, height, width = x_CHW.shape
    margin = len(kernel_KK) // 2
    padded = x_CHW[:, _mirrored(height, margin)][:, :, _mirrored(width, margin)]
    size = [_quick(side + 2 * margin) for side in (height, width)]
    spread = torch.fft.irfft2(torch.fft.rfft2(padded, s=size) * torch.fft.rfft2(kernel_KK, s=size), s=size)
    # the first 2·margin rows and columns mix both ends of the image
    return spread[:, 2 * margin :, 2 * margin :][:, :height, :width]


def _quick(size: int) -> int:
    """At least this many, and 8 to 15 times a power of two: other transforms can take far longer."""
    step = 2 ** max(0, size.bit_length() - 4)
    return -(-size // step) * step


def _mirrored(size: int, margin: int) -> Tensor:
    """Where the pixels from −margin to size + margin are found: … 1 0 | 0 1 2 | 2 1 …"""
    place = torch.arange(-margin, size + margin) % (2 * size)
    return torch.where(place < size, place, 2 * size - 1 - place)


def kernel_of(points_P2: Tensor, weight_P: Tensor) -> Tensor:
    """The kernel that throws light to these points (down, right), each shared by the four pixels around it.

    So a length that is a part of a pixel still blurs, and blurs more as it grows.
    """
    margin = math.ceil(points_P2.abs().max())
    pixel_K = torch.arange(-margin, margin + 1)
    share_2PK = (1 - (points_P2.T[:, :, None] - pixel_K).abs()).clamp(min=0)
    return (share_2PK[0].T * (weight_P / weight_P.sum())) @ share_2PK[1]


def gaussian_kernel(sigma: float) -> Tensor:
    """Cut off at 4σ."""
    margin = math.ceil(4 * sigma)
    weight_K = torch.exp(-(torch.arange(-margin, margin + 1) ** 2) / (2 * sigma**2))
    kernel_KK = weight_K[:, None] * weight_K
    return kernel_KK / kernel_KK.sum()


def trail_kernel(length: float, sigma: float, angle: float) -> Tensor:
    """Light that moves off at an angle (radians, from right to down) and fades: half a Gaussian, cut off."""
    way_P = torch.linspace(0, length, 4 * math.ceil(length) + 9)
    direction_2 = torch.tensor([math.sin(angle), math.cos(angle)])
    return kernel_of(way_P[:, None] * direction_2, torch.exp(-(way_P**2) / (2 * sigma**2)))


def warp(x_CHW: Tensor, shift_2HW: Tensor) -> Tensor:
    """Each pixel is fetched from a place that lies `shift` pixels (down, right) away."""
    height, width = x_CHW.shape[-2:]
    down_HW = torch.arange(height)[:, None] + shift_2HW[0]
    right_HW = torch.arange(width) + shift_2HW[1]
    # −1 and 1 are the outer edges of the outermost pixels
    grid_HW2 = torch.stack([(2 * right_HW + 1) / width - 1, (2 * down_HW + 1) / height - 1], dim=2)
    return F.grid_sample(x_CHW[None], grid_HW2[None], padding_mode="reflection", align_corners=False)[0]
