"""Noise of ImageNet-C: Gaussian, shot and impulse. Shapes: H×W pixels in [0, 1].

Drawn for each channel of each pixel. Levels, not lengths: they are the same for images of all sizes.
"""

from typing import Final

import torch
from torch import Tensor

_SIGMA: Final = (0.08, 0.12, 0.18, 0.26, 0.38)
# photons of white
_PHOTONS: Final = (60, 25, 12, 5, 3)
_SHARE: Final = (0.03, 0.06, 0.09, 0.17, 0.27)


def gaussian_noise(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Of poor light: the same everywhere."""
    return x_3HW + _SIGMA[severity - 1] * torch.randn(x_3HW.shape, generator=generator)


def shot_noise(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Photons are counted: the variance grows with the light, and black stays black."""
    photons = _PHOTONS[severity - 1]
    return torch.poisson(x_3HW * photons, generator=generator) / photons


def impulse_noise(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Some values are lost, half of them to 0 and half to 1."""
    u_3HW, half = torch.rand(x_3HW.shape, generator=generator), _SHARE[severity - 1] / 2
    return x_3HW.masked_fill(u_3HW < half, 0).masked_fill(u_3HW >= 1 - half, 1)
