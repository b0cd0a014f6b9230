"""Views that are turned and sheared: the geometry of RandAugment, for training against answers.

Shapes: B images, s side of a view.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

SHARE: Final = 0.5
"""Of hard views; with 0 none is warped, and none of the numbers for it are drawn."""
TURN: Final = 30
"""Degrees at most, either way."""
SHEAR: Final = 0.3
"""Of the distance from the middle at most, along each axis."""


def warping() -> dict[str, float] | None:
    """What is done to hard views, if anything."""
    return {"share": SHARE, "turn": TURN, "shear": SHEAR} if SHARE else None


def warp(views_B3ss: Tensor, u_4B: Tensor) -> Tensor:
    """A share of the normalised views turned and then sheared around their middle, the others untouched.

    Pixels between pixels are bilinear, and those from outside 0, the mean colour. Every view is resampled and
    some are kept: which ones is not asked of the device.
    """
    u_4B = u_4B.to(views_B3ss.device)
    spread_3B = 2 * u_4B[1:] - 1
    matrix_B23 = _matrix(spread_3B[0] * math.radians(TURN), spread_3B[1] * SHEAR, spread_3B[2] * SHEAR)
    # half precision would misplace pixels
    dtype = torch.promote_types(views_B3ss.dtype, torch.float)
    grid_Bss2 = F.affine_grid(matrix_B23.to(dtype), list(views_B3ss.shape), align_corners=False)
    warped_B3ss = F.grid_sample(views_B3ss.to(dtype), grid_Bss2, align_corners=False)
    still_B111 = (u_4B[0] >= SHARE)[:, None, None, None]
    return views_B3ss.where(still_B111, warped_B3ss.to(views_B3ss.dtype))


def _matrix(angle_B: Tensor, x_B: Tensor, y_B: Tensor) -> Tensor:
    """From places in the warped view to places in the view [B, 2, 3], x to the right and y downwards: a shear
    by (x, y), then a rotation, so a view is turned clockwise by the angle and the shear is undone after it.
    """
    c_B, s_B, none_B = angle_B.cos(), angle_B.sin(), torch.zeros_like(angle_B)
    across_B3 = torch.stack([c_B + s_B * y_B, c_B * x_B + s_B, none_B], 1)
    down_B3 = torch.stack([c_B * y_B - s_B, c_B - s_B * x_B, none_B], 1)
    return torch.stack([across_B3, down_B3], 1)
