"""An image file as a tensor."""

import torch
from torch import Tensor

from semppl.data.files import read_pixels


def read_image(path: str) -> Tensor:
    """uint8 [3, H, W], upright; in memory pixel by pixel, which is what a resize reads fastest.

    By Pillow: torchvision's decoders, which read the same pixels of a JPEG, are deprecated.
    """
    return torch.from_numpy(read_pixels(path)).permute(2, 0, 1)
