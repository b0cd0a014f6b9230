"""The 15 corruptions of ImageNet-C (Hendrycks & Dietterich 2019) at 5 severities, for images of any size.

Written anew from the published parameters. Those are for images of 224 px: lengths are scaled to the shorter
side of the image, levels are not. Frost is drawn (see `frost`), and the mild elastic transforms are milder
than the published ones (see `elastic_transform`), so figures are near those of ImageNet-C, not the same.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from semppl.core.corruptions import SEVERITIES
from semppl.core.errors import UserError, choose
from semppl.core.rng import generator
from semppl.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from semppl.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate
from semppl.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from semppl.corruptions.weather import brightness, fog, frost, snow

# pixels in [0, 1], severity, source of chance → pixels, to be clipped
Corruption = Callable[[Tensor, int, torch.Generator], Tensor]

_TABLE: Final[dict[str, Corruption]] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "defocus_blur": defocus_blur,
    "glass_blur": glass_blur,
    "motion_blur": motion_blur,
    "zoom_blur": zoom_blur,
    "snow": snow,
    "frost": frost,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "elastic_transform": elastic_transform,
    "pixelate": pixelate,
    "jpeg_compression": jpeg_compression,
}


def corrupt(image_3HW: Tensor, name: str, severity: int, *, seed: int) -> Tensor:
    """A uint8 image [3,H,W] on the CPU, corrupted; a function of its arguments alone.

    Give each image its own seed; names and severities draw from streams of their own. A grey image has three
    equal channels.
    """
    corruption = choose(_TABLE, name, "corruption")
    if severity not in SEVERITIES:
        raise UserError(f"unknown severity {severity!r}: choose from 1 (mild) to 5 (strong)")
    if image_3HW.dtype != torch.uint8 or image_3HW.ndim != 3 or len(image_3HW) != 3 or not image_3HW.numel():
        raise ValueError(f"not a uint8 image [3,H,W]: {image_3HW.dtype} {list(image_3HW.shape)}")
    chance = generator(seed, f"corruption {name}", severity)
    corrupted_3HW = corruption(image_3HW.float() / 255, severity, chance)
    return (255 * corrupted_3HW).round().clamp(0, 255).to(torch.uint8)
