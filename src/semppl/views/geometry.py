"""Crops, resizing and flips of a whole batch, each image with its own box.

Shapes: B images, C channels, H×W pixels, s side of a view.

Written by hand because torchvision applies one box to a whole batch. A crop, its resizing and its flip are
one matrix for the rows and one for the columns, so a batch is two batched products; the weights are those of
torchvision's antialiased bicubic resize (the test compares them). On two CPU cores it is seven times as fast
as a loop over `resized_crop` at 8 px, twice at 32 px, and three times slower at 96 px (docs/reproduce.md), so
there the loop is taken from 64 px on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Final

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as V

from semppl.core.rng import uniforms
from semppl.core.share import Rows
from semppl.views.masking import Saliency, fill_background, grey_levels, removable
from semppl.views.recipe import View

Resize = Callable[[Tensor, Tensor, int, Tensor], Tensor]
Look = Callable[[], Tensor | None]
"""Brings the mask of an image, bool [H,W], or None where it cannot be had."""

_LOOP_FROM: Final = 64


def cut_views(
    images_BCHW: Tensor,
    views: Sequence[View],
    num_large: int,
    generator: torch.Generator,
    masks_BHW: Tensor | None = None,
    saliency: Saliency | None = None,
    resize: Resize | None = None,
    rows: Rows | None = None,
) -> tuple[Tensor, ...]:
    """The uint8 crops of all views, large ones first; backgrounds are removed from large views only.

    `resize` may be a compiled `crop_resize`; `rows` says which of a larger batch the images are. Where a crop
    lies is drawn before anything else, so that masks change nothing but the pixels that they remove.
    """
    num_images, _, height, width = images_BCHW.shape
    drawn = num_images if rows is None else rows
    boxes = [
        (draw_boxes(drawn, height, width, view, generator), uniforms(1, drawn, generator)[0] < view.flip)
        for view in views
    ]
    seen: Iterator[Tensor] = repeat(images_BCHW)
    if masks_BHW is not None and saliency is not None:
        coins = [uniforms(2, drawn, generator) for _ in range(num_large)]
        background_BHW = removable(masks_BHW, saliency)
        # one after the other: each is a copy of the batch
        masked = (fill_background(images_BCHW, background_BHW, u_2B, saliency) for u_2B in coins)
        seen = chain(masked, seen)
    return tuple(
        (resize or crop_resize)(source, box_B4, view.size, flip_B)
        for view, (box_B4, flip_B), source in zip(views, boxes, seen, strict=False)
    )


def cut_image(views: Sequence[View], image_CHW: Tensor, generator: torch.Generator) -> list[Tensor]:
    """The uint8 crops of one image of any size on the CPU, in the order of the views."""
    return _crop_all([image_CHW] * len(views), views, torch.rand(6, len(views), generator=generator))


def cut_masked(
    views: Sequence[View],
    num_large: int,
    saliency: Saliency,
    image_CHW: Tensor,
    generator: torch.Generator,
    look: Look,
) -> list[Tensor]:
    """The same crops from the same draws, some of the first `num_large` without their background.

    Most images are left as they are, and their masks are not looked at.
    """
    u_6A = torch.rand(6, len(views), generator=generator)
    u_2V = torch.rand(2, num_large, generator=generator)
    sources = [image_CHW] * len(views)
    wanted = (u_2V[0] < saliency.probability).nonzero().squeeze(1).tolist()
    if wanted and (mask_HW := look()) is not None:
        background_HW = removable(mask_HW[None], saliency)[0]
        for i in wanted:
            sources[i] = image_CHW.masked_fill(background_HW, grey_levels(u_2V[1, i]))
    return _crop_all(sources, views, u_6A)


def _crop_all(sources: Sequence[Tensor], views: Sequence[View], u_6A: Tensor) -> list[Tensor]:
    """A view of each source, all of one size, where six numbers in [0, 1) say."""
    height, width = sources[0].shape[1:]
    area_2A = torch.tensor([[view.min_area, view.max_area] for view in views]).T
    box_A4 = place_boxes(u_6A[:5], height, width, area_2A, torch.tensor([view.crop for view in views]))
    return [
        _crop_one(source_CHW, box, view.size, flip=coin < view.flip)
        for source_CHW, view, box, coin in zip(sources, views, box_A4.tolist(), u_6A[5].tolist(), strict=True)
    ]


def draw_boxes(rows: Rows | int, height: int, width: int, view: View, generator: torch.Generator) -> Tensor:
    """(top, left, height, width) of a crop for each image, in whole pixels."""
    u_5B = uniforms(5, rows, generator)
    return place_boxes(u_5B, height, width, (view.min_area, view.max_area), view.crop)


def place_boxes(
    u_5B: Tensor,
    height: int,
    width: int,
    area: Tensor | tuple[float, float],
    crop: Tensor | float,
) -> Tensor:
    """Boxes [B, 4] from numbers in [0, 1).

    Area uniform in its range, log of the aspect uniform in ±log 4/3; a side that exceeds the image is clamped
    to it (BYOL's sampler), where torchvision would draw again. With probability 1 − `crop` the whole image.
    """
    least, most = area
    area_B = (least + (most - least) * u_5B[0]) * height * width
    aspect_B = torch.exp((2 * u_5B[1] - 1) * math.log(4 / 3))
    whole_B = u_5B[4] >= crop
    wide_B = (area_B * aspect_B).sqrt().round().clamp(1, width).masked_fill(whole_B, width)
    high_B = (area_B / aspect_B).sqrt().round().clamp(1, height).masked_fill(whole_B, height)
    top_B = (u_5B[2] * (height - high_B + 1)).floor().clamp(max=height - 1)
    left_B = (u_5B[3] * (width - wide_B + 1)).floor().clamp(max=width - 1)
    return torch.stack(
        [top_B.minimum(height - high_B), left_B.minimum(width - wide_B), high_B, wide_B], dim=1
    )


def crop_resize(images_BCHW: Tensor, box_B4: Tensor, size: int, flip_B: Tensor | None = None) -> Tensor:
    """Each image's box, resized to size×size by antialiased bicubic, flipped where told; uint8.

    On a GPU in float16: its 11 bits hold pixels exactly, and a result is off by at most one level.
    """
    if flip_B is None:
        flip_B = torch.zeros(len(images_BCHW), dtype=torch.bool)
    if images_BCHW.device.type == "cpu" and size >= _LOOP_FROM:
        rows = zip(images_BCHW, box_B4.tolist(), flip_B.tolist(), strict=True)
        return torch.stack([_crop_one(image, box, size, flip=flip) for image, box, flip in rows])
    top_B, left_B, high_B, wide_B = box_B4.to(images_BCHW.device).unbind(1)
    rows_BsH = resize_matrix(top_B, high_B, images_BCHW.shape[2], size)
    columns_BsW = resize_matrix(left_B, wide_B, images_BCHW.shape[3], size)
    columns_BsW = columns_BsW.flip(1).where(flip_B.to(images_BCHW.device)[:, None, None], columns_BsW)
    num_images, channels, height, width = images_BCHW.shape
    dtype = torch.half if images_BCHW.device.type == "cuda" else torch.float
    pixels = images_BCHW.transpose(1, 2).reshape(num_images, height, channels * width).to(dtype)
    pixels = torch.bmm(rows_BsH.to(dtype), pixels).view(num_images, size * channels, width)
    pixels = torch.bmm(pixels, columns_BsW.to(dtype).transpose(1, 2)).view(num_images, size, channels, size)
    return pixels.round().clamp(0, 255).to(torch.uint8).transpose(1, 2).contiguous()


def _crop_one(image_CHW: Tensor, box: Sequence[float], size: int, *, flip: bool) -> Tensor:
    top, left, high, wide = (int(side) for side in box)
    crop = V.resized_crop(
        image_CHW, top, left, high, wide, [size, size], InterpolationMode.BICUBIC, antialias=True
    )
    return crop.flip(2) if flip else crop


def resize_matrix(start_B: Tensor, length_B: Tensor, source: int, size: int) -> Tensor:
    """Weights [B, size, source] that resample `length` pixels from `start` on to `size` pixels.

    Keys' kernel with a = −0.5, stretched when shrinking; taps outside the crop count for nothing and the rest
    is renormalised, so that what lies beside the crop never leaks in.
    """
    pixel = torch.arange(source, device=start_B.device, dtype=torch.float)
    output = torch.arange(size, device=start_B.device, dtype=torch.float)
    scale_B11 = (length_B / size)[:, None, None]
    offset_B1s = pixel - start_B[:, None, None]
    centre = (output[:, None] + 0.5) * scale_B11
    distance = ((offset_B1s + 0.5 - centre) / scale_B11.clamp(min=1)).abs()
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    weight = near.where(distance < 1, far).masked_fill(distance >= 2, 0)
    weight = weight * ((offset_B1s >= 0) & (offset_B1s < length_B[:, None, None]))
    return weight / weight.sum(2, keepdim=True)
