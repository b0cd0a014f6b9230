"""Colour, blur and solarisation of a whole batch at once, parameters drawn for each image.

Shapes: B images, 3 channels, s×s pixels in [0, 1]. The operators and their order are BYOL's: jitter (its four
parts in a random order for each image) → grey → blur → solarise → clip → normalise.

Written by hand because torchvision's random transforms draw one set of parameters for a whole batch.
"""

import torch
from torch import Tensor

from semppl.views.recipe import View

# ITU-R 601 luma
_LUMA = (0.2989, 0.5870, 0.1140)


def finish(
    crops_B3ss: Tensor, view: View, mean_3: Tensor, std_3: Tensor, generator: torch.Generator
) -> Tensor:
    """uint8 crops → augmented, normalised float views."""
    x = crops_B3ss.float() / 255
    x = jitter(x, view, generator)
    if view.grey:
        x = grey(x).where(_coin(x, view.grey, generator), x)
    if view.blur and view.taps > 1:
        sigma_B = 0.1 + 1.9 * _uniform(x, generator)
        x = blur(x, sigma_B, view.taps).where(_coin(x, view.blur, generator), x)
    if view.solarise:
        x = solarise(x, view.solarise_by).where(_coin(x, view.solarise, generator), x)
    return normalise(x.clamp(0, 1), mean_3, std_3)


def normalise(x_B3ss: Tensor, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """(x − mean)/std of each channel."""
    return (x_B3ss - mean_3[:, None, None]) / std_3[:, None, None]


def jitter(x_B3ss: Tensor, view: View, generator: torch.Generator) -> Tensor:
    """Brightness, contrast, saturation and hue in an order of each image's own, or none of them."""
    if not view.jitter or not any((view.brightness, view.contrast, view.saturation, view.hue)):
        return x_B3ss
    apply_B = _coin(x_B3ss, view.jitter, generator)
    place_B4 = torch.rand(len(x_B3ss), 4, generator=generator, device=generator.device).argsort(1)
    place_B4 = place_B4.to(x_B3ss.device)
    strength = (view.brightness, view.contrast, view.saturation, view.hue)
    amount_4B = [a * (2 * _uniform(x_B3ss, generator) - 1) for a in strength]
    x = x_B3ss
    for place in range(4):
        # an image's part is neutral everywhere but in its own place
        bright_B, contrast_B, saturation_B, hue_B = (
            amount_B * (place_B4[:, i] == place) for i, amount_B in enumerate(amount_4B)
        )
        if view.brightness:
            x = adjust_brightness(x, bright_B)
        if view.contrast:
            x = adjust_contrast(x, 1 + contrast_B)
        if view.saturation or view.hue:
            x = adjust_colour(x, 1 + saturation_B, hue_B)
    return x.where(apply_B, x_B3ss)


def adjust_brightness(x_B3ss: Tensor, delta_B: Tensor) -> Tensor:
    """x + δ: additive, unlike torchvision's."""
    return (x_B3ss + delta_B[:, None, None, None]).clamp(0, 1)


def adjust_contrast(x_B3ss: Tensor, factor_B: Tensor) -> Tensor:
    """Stretched around the mean of each channel."""
    mean_B311 = x_B3ss.mean((2, 3), keepdim=True)
    return ((x_B3ss - mean_B311) * factor_B[:, None, None, None] + mean_B311).clamp(0, 1)


def adjust_colour(x_B3ss: Tensor, saturation_B: Tensor, hue_B: Tensor) -> Tensor:
    """Saturation times a factor and hue turned by a part of a full turn, both in HSV."""
    red, green, blue = x_B3ss.unbind(1)
    value, chroma = x_B3ss.amax(1), x_B3ss.amax(1) - x_B3ss.amin(1)
    span = chroma.clamp(min=1e-8)
    sixth = torch.where(
        value == red,
        (green - blue) / span,
        torch.where(value == green, (blue - red) / span + 2, (red - green) / span + 4),
    )
    sixth = sixth + 6 * hue_B[:, None, None]
    chroma = torch.minimum(chroma * saturation_B[:, None, None], value)
    channels = []
    for offset in (5, 3, 1):
        position = (offset + sixth) % 6
        channels.append(value - chroma * torch.minimum(position, 4 - position).clamp(0, 1))
    return torch.stack(channels, dim=1)


def grey(x_B3ss: Tensor) -> Tensor:
    """Luma in all three channels."""
    red, green, blue = x_B3ss.split(1, dim=1)
    return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).expand_as(x_B3ss)


def blur(x_B3ss: Tensor, sigma_B: Tensor, taps: int) -> Tensor:
    """Separable Gaussian of `taps` taps with each image's own σ; outside the image is black, as in BYOL."""
    size, half = x_B3ss.shape[-1], taps // 2
    pixel = torch.arange(size, device=x_B3ss.device, dtype=x_B3ss.dtype)
    distance_ss = (pixel[:, None] - pixel).abs()
    offset = torch.arange(-half, half + 1, device=x_B3ss.device, dtype=x_B3ss.dtype)
    sigma_B11 = sigma_B[:, None, None]
    total_B11 = torch.exp(-(offset**2) / (2 * sigma_B11**2)).sum(2, keepdim=True)
    weight_Bss = torch.exp(-(distance_ss**2) / (2 * sigma_B11**2)).masked_fill(distance_ss > half, 0)
    weight_B1ss = (weight_Bss / total_B11)[:, None]
    return weight_B1ss @ x_B3ss @ weight_B1ss


def solarise(x_B3ss: Tensor, by: str) -> Tensor:
    """Invert from the middle on; "binarise" is what the paper's text says instead."""
    if by == "binarise":
        return (x_B3ss >= 0.5).to(x_B3ss)
    return x_B3ss.where(x_B3ss < 0.5, 1 - x_B3ss)


def _uniform(x_B3ss: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(len(x_B3ss), generator=generator, device=generator.device).to(x_B3ss.device)


def _coin(x_B3ss: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    return (_uniform(x_B3ss, generator) < probability)[:, None, None, None]
