"""Random textures of weather: clouds and ice.

Shapes: C channels, H×W pixels of the image, h×w of the canvas.

A texture is drawn on a canvas whose shorter side is ImageNet-C's 224 px and then fitted to the image, so that
it looks the same, and costs the same, for an image of any size.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.corruptions.filters import REFERENCE, convolve, kernel_of

# a longer image than this is drawn shorter and stretched
_LONGEST: Final = 6 * REFERENCE
_OCTAVES: Final = 7
# radius, and how many of them where the veil is thickest
_CRYSTALS: Final = ((64, 40), (36, 100), (18, 200))


def canvas(height: int, width: int) -> tuple[int, int]:
    """The canvas for an image of this shape."""
    scale = REFERENCE / min(height, width)
    return min(round(height * scale), _LONGEST), min(round(width * scale), _LONGEST)


def fit(texture_Chw: Tensor, x_CHW: Tensor) -> Tensor:
    """The texture in the size of the image."""
    size = x_CHW.shape[-2:]
    return F.interpolate(texture_Chw[None], size, mode="bilinear", antialias=True)[0]


def hills(height: int, width: int, cells: int, generator: torch.Generator, channels: int = 1) -> Tensor:
    """Smooth noise [C,H,W] in about ±1 with this many random heights along the shorter side."""
    rows, columns = (min(round(cells * side / min(height, width)), side) + 1 for side in (height, width))
    heights = 2 * torch.rand(1, channels, rows, columns, generator=generator) - 1
    return F.interpolate(heights, (height, width), mode="bicubic", align_corners=True)[0]


def plasma(height: int, width: int, decay: float, generator: torch.Generator) -> Tensor:
    """Clouds [1,h,w] that fill [0, 1]: each octave of hills is half as wide and `decay`² times lower.

    The fractal of the diamond-square algorithm, without its need for a side that is a power of two.
    """
    clouds = torch.zeros(1, height, width)
    for octave in range(_OCTAVES):
        clouds += decay ** (-2 * octave) * hills(height, width, 2 ** (octave + 1), generator)
    return (clouds - clouds.min()) / (clouds.max() - clouds.min())


def ice(height: int, width: int, generator: torch.Generator) -> Tensor:
    """Frost on a window, [1,h,w] in [0, 1]: a veil that is thicker here and there, and crystals in it."""
    veil = plasma(height, width, 1.4, generator)
    light = torch.zeros(1, height, width)
    for radius, number in _CRYSTALS:
        likely = (0.1 + veil.square()) * (number / REFERENCE**2)
        u_2hw = torch.rand(2, height, width, generator=generator)
        seeds_1hw = (u_2hw[:1] < likely) * (0.3 + 0.7 * u_2hw[1:])
        light += convolve(seeds_1hw, _crystal(radius, generator))
    crystals = 1 - torch.exp(-light.clamp(min=0))
    rough = plasma(height, width, 1.15, generator)
    return (0.8 * crystals * (0.4 + 1.2 * rough) + 0.1 + 0.5 * veil * rough.sqrt()).clamp(0, 1)


def _crystal(radius: int, generator: torch.Generator) -> Tensor:
    """A kernel: six arms at uneven angles and of unequal length, with side branches at 60°."""
    u_63 = torch.rand(6, 3, generator=generator)
    angle_61 = (torch.arange(6)[:, None] + u_63[:, :1] / 2) * (math.pi / 3) + u_63[0, 2] * math.pi
    length_61 = radius * (0.3 + 0.7 * u_63[:, 1:2])
    along_P, across_P, bright_P = _arm(radius)
    down_6P = length_61 * (along_P * angle_61.sin() + across_P * angle_61.cos())
    right_6P = length_61 * (along_P * angle_61.cos() - across_P * angle_61.sin())
    kernel_KK = kernel_of(torch.stack([down_6P.flatten(), right_6P.flatten()], dim=1), bright_P.repeat(6))
    # the arms cross in the middle, which is far brighter than they are
    return 4 / kernel_KK.max() * kernel_KK


def _arm(radius: int) -> tuple[Tensor, Tensor, Tensor]:
    """Points along and across an arm of length 1, and their light: a stem, and R branches on each side."""
    stem_S, way_W = torch.linspace(0, 1, radius), torch.linspace(0, 1, radius // 2)
    root_R1 = torch.linspace(0.15, 0.9, radius // 5)[:, None]
    reach_RW = (0.6 - 0.5 * root_R1) * way_W
    bright_RW = (0.6 - 0.5 * root_R1) * (1 - 0.8 * way_W)
    along_B, across_B = (root_R1 + reach_RW / 2).flatten(), math.sqrt(0.75) * reach_RW.flatten()
    along_P = torch.cat([stem_S, along_B, along_B])
    across_P = torch.cat([torch.zeros(radius), across_B, -across_B])
    return along_P, across_P, torch.cat([1 - stem_S / 2, bright_RW.flatten(), bright_RW.flatten()])
