"""Digital corruptions of ImageNet-C: contrast, elastic transform, pixels and JPEG.

Shapes: H×W pixels in [0, 1].
"""

from io import BytesIO
from typing import Final

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as V

from semppl.corruptions.filters import pixel_scale, warp
from semppl.corruptions.texture import hills

_CONTRAST: Final = (0.4, 0.3, 0.2, 0.1, 0.05)
# farthest shift of the corners and of the fine waves, in pixels of an image of 224 px
_ELASTIC: Final = ((2.0, 0.9), (3.0, 1.4), (4.0, 1.9), (5.0, 2.7), (6.0, 4.5))
# fine waves along the shorter side
_WAVES: Final = 38
_KEPT: Final = (0.6, 0.5, 0.4, 0.3, 0.25)
_QUALITY: Final = (25, 18, 15, 10, 7)


def contrast(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """Towards the mean of each channel."""
    mean_311 = x_3HW.mean((1, 2), keepdim=True)
    return mean_311 + _CONTRAST[severity - 1] * (x_3HW - mean_311)


def elastic_transform(x_3HW: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """The corners are pulled about, and fine waves run over the image.

    The waves of severities 3 to 5 are as strong as the published ones. The published severities 1 and 2 pull
    the whole image farther about than 5 does; here both kinds of shift grow from each severity to the next.
    """
    corner, wave = _ELASTIC[severity - 1]
    height, width = x_3HW.shape[-2:]
    pull_2HW = hills(height, width, 1, generator, channels=2)
    waves_2HW = hills(height, width, _WAVES, generator, channels=2)
    return warp(x_3HW, pixel_scale(x_3HW) * (corner * pull_2HW + wave * waves_2HW))


def pixelate(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """Fewer, larger pixels: means of blocks.

    A block is as large a part of the image as published; where that is below a pixel (images of less than
    224 px), what it has more than one pixel is scaled, so that an image of 32 px keeps 22 at severity 5.
    """
    scale = pixel_scale(x_3HW)
    block = max(1.0, scale) + scale * (1 / _KEPT[severity - 1] - 1)
    for axis in (1, 2):
        x_3HW = _block_means(x_3HW, axis, max(1, int(x_3HW.shape[axis] / block)))
    return x_3HW


def _block_means(x_3HW: Tensor, axis: int, blocks: int) -> Tensor:
    """Every line along an axis cut into blocks of nearly equal length, each filled with its mean."""
    size = x_3HW.shape[axis]
    block_of_S = torch.arange(size) * blocks // size
    shape = [blocks if i == axis else side for i, side in enumerate(x_3HW.shape)]
    sums = torch.zeros(shape).index_add_(axis, block_of_S, x_3HW)
    count = [-1 if i == axis else 1 for i in range(3)]
    return (sums / block_of_S.bincount().view(count)).index_select(axis, block_of_S)


def jpeg_compression(x_3HW: Tensor, severity: int, _generator: torch.Generator) -> Tensor:
    """Saved and read again; blocks are of 8 px and quality is a level, so both are the same for all sizes."""
    file = BytesIO()
    V.to_pil_image((255 * x_3HW).round().to(torch.uint8)).save(file, "JPEG", quality=_QUALITY[severity - 1])
    return V.pil_to_tensor(Image.open(file)).float() / 255
