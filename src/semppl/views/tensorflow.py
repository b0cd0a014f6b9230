"""The view that DeepMind's released evaluation sees, without TensorFlow: for numbers beside its checkpoints.

It differs from `whole_crop` in its order, as it crops before it resizes, and in its resize: TensorFlow's
bicubic reads four pixels a side however much an image shrinks (there is no antialiasing), finds them in steps
of 1/1024 of a pixel, and at a border leaves out what lies beyond. Order and precision of its arithmetic are
kept, so that the same pixels give the same view; what is left between the two is how a JPEG is read.

Shapes: H×W pixels, s side, P planes (channels of some images), R rows read, O rows made, 4 taps for each.
"""

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from torch import Tensor

# of an image of this much more than the size the middle is seen
_MARGIN: Final = 32
# places between two pixels
_STEPS: Final = 1024
# pixels that stay in the cache together
_AT_A_TIME: Final = 2**19


def tensorflow_crop(size: int, images_3HW: Tensor) -> Tensor:
    """The middle of a uint8 image of any shape [3,H,W], or of many [N,3,H,W], as float32 [3,s,s] in 0 … 255.

    At 224 px that is 7/8 of the shorter side; other sizes, never released, keep the margin of 32 px.
    """
    height, width = images_3HW.shape[-2:]
    side = crop_side(size, min(height, width))
    top, left = (height - side + 1) // 2, (width - side + 1) // 2
    return resize_bicubic(images_3HW[..., top : top + side, left : left + side], size).clamp_(0, 255)


def crop_side(size: int, shorter: int) -> int:
    """How much of the shorter side is seen: in float32, which at some sizes is a pixel off, but not at 224.

    At least one pixel, where the release would see none.
    """
    share = np.float32(size / (size + _MARGIN))
    return max(1, int(share * np.float32(shorter)))


def resize_bicubic(images_3HW: Tensor, size: int) -> Tensor:
    """Images [...,3,H,W] as float32 [...,3,s,s]; beside an edge, values go beyond those of the image."""
    *some, height, width = images_3HW.shape
    few = max(1, _AT_A_TIME // max(height * width, size * size))
    parts = images_3HW.reshape(-1, height, width).split(few)
    return torch.cat([_resize_planes(part_PHW, size) for part_PHW in parts]).view(*some, size, size)


def _resize_planes(x_PHW: Tensor, size: int) -> Tensor:
    """Down, then across; turned in between, as whole rows are picked quickly and single pixels are not."""
    down_PsW = _resize_rows(x_PHW.to(torch.float32, memory_format=torch.contiguous_format), size)
    return _resize_rows(down_PsW.mT.contiguous(), size).mT


def _resize_rows(x_PRA: Tensor, outputs: int) -> Tensor:
    taps = _remembered_weights(x_PRA.shape[-2], outputs)
    index_4O, weight_4O = (part_4O.to(x_PRA.device) for part_4O in taps)
    sum_POA = x_PRA.index_select(-2, index_4O[0]).mul_(weight_4O[0, :, None])
    for tap in range(1, 4):
        sum_POA += x_PRA.index_select(-2, index_4O[tap]).mul_(weight_4O[tap, :, None])
    return sum_POA


def bicubic_weights(inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """For each row that is made, the four that it is read from and their float32 weights: both [4, outputs].

    Rows beyond the border have weight 0 and the others make up for it.
    """
    scale = torch.tensor(inputs, dtype=torch.float32) / outputs
    place_O = (torch.arange(outputs, dtype=torch.float32) + 0.5) * scale - 0.5
    before_O = place_O.floor()
    step_O = ((place_O - before_O) * _STEPS).round()
    tap_41 = torch.arange(-1, 3)[:, None]
    weight_4O = _keys((step_O.double() / _STEPS - tap_41).abs()).float()
    index_4O = before_O.long() + tap_41
    bounded_4O = index_4O.clamp(0, inputs - 1)
    first_O, second_O, third_O, fourth_O = weight_4O = weight_4O * (index_4O == bounded_4O)
    return bounded_4O, weight_4O * (1 / (first_O + second_O + third_O + fourth_O))


_remembered_weights = lru_cache(maxsize=256)(bicubic_weights)


def _keys(distance: Tensor) -> Tensor:
    """Keys' cubic with a = −1/2, for distances up to 2 pixels."""
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return near.where(distance <= 1, far)
