"""Views that change little, and a hole: for training against answers (FixMatch's weak view and Cutout).

Shapes: B images, s side of a view.
"""

from typing import Final

import torch
from torch import Tensor

# of the side: FixMatch's, 4 px of 32. Images below 16 px stay where they are: digits of 8 px fill their
# square, and fewer of their withheld labels were answered right when they moved by a pixel (docs/evaluate.md)
_SHIFT: Final = 1 / 8
_SHIFT_FROM: Final = 16
# of the side
_HOLE: Final = 0.5


def shift(square_B3ss: Tensor, u_3B: Tensor, flip: float) -> Tensor:
    """Each image moved by up to an eighth of its side, mirrored at its edges, and perhaps flipped: no pixel
    is made of two, so the view is as sharp as the image.
    """
    side = square_B3ss.shape[-1]
    most, last = reach(side), side - 1
    u_3B = u_3B.to(square_B3ss.device)
    offset_2B1 = ((u_3B[:2] * (2 * most + 1)).floor().long() - most)[:, :, None]
    place_2Bs = last - (last - (torch.arange(side, device=u_3B.device) + offset_2B1).abs()).abs()
    rows_Bs, columns_Bs = place_2Bs
    columns_Bs = columns_Bs.flip(1).where((u_3B[2] < flip)[:, None], columns_Bs)
    moved_B3ss = square_B3ss.gather(2, rows_Bs[:, None, :, None].expand_as(square_B3ss))
    return moved_B3ss.gather(3, columns_Bs[:, None, None, :].expand_as(square_B3ss))


def reach(side: int) -> int:
    """By how many pixels an image of that side may move."""
    return round(side * _SHIFT) if side >= _SHIFT_FROM else 0


def cut_out(views_B3ss: Tensor, u_2B: Tensor) -> Tensor:
    """A square hole, half as wide as the view, around a pixel anywhere: 0 is the mean colour."""
    side = views_B3ss.shape[-1]
    width = round(side * _HOLE)
    start_2B1 = ((u_2B.to(views_B3ss.device) * side).floor() - width // 2)[:, :, None]
    beyond_2Bs = torch.arange(side, device=views_B3ss.device) - start_2B1
    rows_Bs, columns_Bs = (beyond_2Bs >= 0) & (beyond_2Bs < width)
    return views_B3ss.masked_fill(rows_Bs[:, None, :, None] & columns_Bs[:, None, None, :], 0.0)
