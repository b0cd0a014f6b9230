"""Weather of ImageNet-C: snow, frost, fog and brightness. Shapes: H×W pixels in [0, 1], canvas h×w."""

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.corruptions.filters import convolve, trail_kernel
from semppl.corruptions.texture import canvas, fit, ice, plasma


class _Snow(NamedTuple):
    mean: float
    std: float
    flake: float
    """Pixels of a grain of noise."""
    threshold: float
    trail: float
    sigma: float
    keep: float
    """Share of the image's own colours; the rest is pale."""


_SNOW: Final = (
    _Snow(0.1, 0.3, 3, 0.5, 20, 4, 0.8),
    _Snow(0.2, 0.3, 2, 0.5, 24, 4, 0.7),
    _Snow(0.55, 0.3, 4, 0.9, 24, 8, 0.7),
    _Snow(0.55, 0.3, 4.5, 0.85, 24, 8, 0.65),
    _Snow(0.55, 0.3, 2.5, 0.85, 24, 12, 0.55),
)
# share of the image, share of the ice
_FROST: Final = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
_ICE_COLOUR: Final = (0.86, 0.94, 1.0)
# thickness, decay of the clouds
_FOG: Final = ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
_BRIGHTER: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
# ITU-R 601 luma
_LUMA: Final = (0.299, 0.587, 0.114)


def snow(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Bright grains of noise that fall, once as they are and once turned around, over a paler image."""
    how = _SNOW[severity - 1]
    shape = canvas(*x_3HW.shape[-2:])
    rows, columns = (math.ceil(side / how.flake) for side in shape)
    grains = how.mean + how.std * torch.randn(1, 1, rows, columns, generator=generator)
    flakes_1hw = F.interpolate(grains, shape, mode="bilinear", align_corners=True)[0]
    flakes_1hw = flakes_1hw.masked_fill(flakes_1hw < how.threshold, 0).clamp(max=1)
    angle = math.radians(45 + 90 * torch.rand((), generator=generator).item())
    falling_1HW = fit(convolve(flakes_1hw, trail_kernel(how.trail, how.sigma, angle)), x_3HW)
    luma_1HW = (torch.tensor(_LUMA)[:, None, None] * x_3HW).sum(0, keepdim=True)
    pale_3HW = torch.maximum(x_3HW, 1.5 * luma_1HW + 0.5)
    return how.keep * x_3HW + (1 - how.keep) * pale_3HW + falling_1HW + falling_1HW.flip(1, 2)


def frost(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Ice on the pane in front of a darker image.

    The original lays photographs of frost over the image. This package ships none: the ice is drawn, a cloudy
    veil with six-armed crystals in it, and mixed in by the published shares.
    """
    keep, share = _FROST[severity - 1]
    ice_1HW = fit(ice(*canvas(*x_3HW.shape[-2:]), generator), x_3HW)
    return keep * x_3HW + share * torch.tensor(_ICE_COLOUR)[:, None, None] * ice_1HW


def fog(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """White clouds added, then all made darker so that the brightest of the image can stay as bright."""
    thickness, decay = _FOG[severity - 1]
    clouds_1HW = fit(plasma(*canvas(*x_3HW.shape[-2:]), decay, generator), x_3HW)
    brightest = x_3HW.max()
    return (x_3HW + thickness * clouds_1HW) * brightest / (brightest + thickness)


def brightness(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """More value in HSV, at most 1: hue and saturation stay, so all channels grow by one factor."""
    value_1HW = x_3HW.amax(0, keepdim=True)
    brighter_1HW = (value_1HW + _BRIGHTER[severity - 1]).clamp(max=1)
    # black has no hue: it becomes grey
    return torch.where(value_1HW > 0, x_3HW * (brighter_1HW / value_1HW.clamp(min=1e-6)), brighter_1HW)
