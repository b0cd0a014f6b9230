"""The operators of the photometric stage, each image with its own parameter.

Shapes: B images, s×s pixels in [0, 1]. Colours are three planes [B, s, s] rather than one tensor: all of them
become one pass over the pixels where they are compiled, and none needs a copy where they are not.

Written by hand because torchvision's operators take one parameter for a whole batch.
"""

import torch
from torch import Tensor

Planes = tuple[Tensor, Tensor, Tensor]

# ITU-R 601 luma
_LUMA = (0.2989, 0.5870, 0.1140)


def planes(x_B3ss: Tensor) -> Planes:
    """Red, green, blue."""
    red, green, blue = x_B3ss.unbind(1)
    return red, green, blue


def adjust_brightness(rgb: Planes, delta_B: Tensor) -> Planes:
    """x + δ: additive, unlike torchvision's."""
    delta_B11 = delta_B[:, None, None]
    red, green, blue = ((plane + delta_B11).clamp_(0, 1) for plane in rgb)
    return red, green, blue


def channel_means(rgb: Planes) -> Tensor:
    """[3, B]."""
    return torch.stack([plane.mean((1, 2)) for plane in rgb])


def adjust_contrast(rgb: Planes, factor_B: Tensor, mean_3B: Tensor) -> Planes:
    """Stretched around the mean of each channel."""
    factor_B11, rest_3B11 = factor_B[:, None, None], (mean_3B * (1 - factor_B))[:, :, None, None]
    red, green, blue = (
        torch.addcmul(rest_B11, plane, factor_B11).clamp_(0, 1)
        for plane, rest_B11 in zip(rgb, rest_3B11, strict=True)
    )
    return red, green, blue


def adjust_colour(rgb: Planes, saturation_B: Tensor, hue_B: Tensor) -> Planes:
    """Saturation times a factor and hue turned by a part of a full turn, both in HSV."""
    red, green, blue = rgb
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    inverse = chroma.clamp(min=1e-8).reciprocal_()
    # hue in sixths of a turn, in [0, 6]
    from_green = ((blue - red) * inverse).add_(2)
    from_blue = ((red - green) * inverse).add_(4)
    sixth = ((green - blue) * inverse).where(value == red, from_green.where(value == green, from_blue))
    sixth = (sixth + 6 * hue_B[:, None, None]).remainder_(6)
    chroma = torch.minimum(chroma.mul_(saturation_B[:, None, None]), value)
    return (
        value - (2 - (sixth - 3).abs_()).clamp_(0, 1).mul_(chroma),
        value - (sixth - 2).abs_().sub_(1).clamp_(0, 1).mul_(chroma),
        value - (sixth - 4).abs_().sub_(1).clamp_(0, 1).mul_(chroma),
    )


def grey(rgb: Planes) -> Tensor:
    """Luma."""
    red, green, blue = rgb
    return (_LUMA[0] * red).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def blur(x_B3ss: Tensor, sigma_B: Tensor, taps: int) -> Tensor:
    """Separable Gaussian of `taps` taps with each image's own σ; outside the image is black, as in BYOL.

    On a CPU a sum of shifted images, on a GPU two matrix products in float16, whose 11 bits are finer than
    the 8 of the pixels: each is the faster one there.
    """
    half = taps // 2
    offset_T = torch.arange(half + 1, device=x_B3ss.device, dtype=sigma_B.dtype)
    weight_BT = torch.exp(-(offset_T**2) / (2 * sigma_B[:, None] ** 2))
    weight_BT = weight_BT / (2 * weight_BT.sum(1, keepdim=True) - 1)
    by_shifts = x_B3ss.device.type == "cpu"
    return _blur_by_shifts(x_B3ss, weight_BT) if by_shifts else _blur_by_products(x_B3ss, weight_BT)


def _blur_by_shifts(x_B3ss: Tensor, weight_BT: Tensor) -> Tensor:
    size = x_B3ss.shape[-1]
    weight_TB111 = weight_BT.T[:, :, None, None, None]
    for axis in (2, 3):
        blurred = x_B3ss * weight_TB111[0]
        for shift in range(1, min(len(weight_TB111), size)):
            left, right = (0, size - shift), (shift, size - shift)
            blurred.narrow(axis, *left).addcmul_(x_B3ss.narrow(axis, *right), weight_TB111[shift])
            blurred.narrow(axis, *right).addcmul_(x_B3ss.narrow(axis, *left), weight_TB111[shift])
        x_B3ss = blurred
    return x_B3ss


def _blur_by_products(x_B3ss: Tensor, weight_BT: Tensor) -> Tensor:
    pixel = torch.arange(x_B3ss.shape[-1], device=x_B3ss.device)
    distance_ss = (pixel[:, None] - pixel).abs()
    far = weight_BT.shape[1]
    weight_Bss = weight_BT[:, distance_ss.clamp(max=far - 1)].masked_fill(distance_ss >= far, 0)
    weight_B1ss = weight_Bss[:, None].half()
    return (weight_B1ss @ x_B3ss.half() @ weight_B1ss).to(x_B3ss.dtype)


def solarise(x: Tensor, by: str) -> Tensor:
    """Invert from the middle on; "binarise" is what the paper's text says instead."""
    if by == "binarise":
        return (x >= 0.5).to(x)
    return x.where(x < 0.5, 1 - x)


def normalise(x_B3ss: Tensor, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """(x − mean)/std of each channel."""
    return (x_B3ss - mean_3[:, None, None]) / std_3[:, None, None]
