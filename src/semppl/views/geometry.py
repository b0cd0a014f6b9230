"""Crops, resizing and flips of a whole batch, each image with its own box.

Shapes: B images, C channels, H×W pixels, s side of a view.

Written by hand because torchvision applies one box to a whole batch. A crop, its resizing and its flip are
one matrix for the rows and one for the columns, so a batch is two batched products; the weights are those of
torchvision's antialiased bicubic resize (the test compares them). On two CPU cores it is seven times as fast
as a loop over `resized_crop` at 8 px, twice at 32 px, and three times slower at 96 px (docs/reproduce.md).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from semppl.views.masking import Saliency, mask_background
from semppl.views.recipe import View


def cut_views(
    images_BCHW: Tensor,
    views: Sequence[View],
    num_large: int,
    generator: torch.Generator,
    masks_BHW: Tensor | None = None,
    saliency: Saliency | None = None,
) -> tuple[Tensor, ...]:
    """The uint8 crops of all views, large ones first; backgrounds are removed from large views only."""
    num_images, _, height, width = images_BCHW.shape
    crops = []
    for i, view in enumerate(views):
        source = images_BCHW
        if i < num_large and masks_BHW is not None and saliency is not None:
            source = mask_background(images_BCHW, masks_BHW, saliency, generator)
        box_B4 = draw_boxes(num_images, height, width, view, generator)
        flip_B = torch.rand(num_images, generator=generator, device=generator.device) < view.flip
        crops.append(crop_resize(source, box_B4, view.size, flip_B))
    return tuple(crops)


def draw_boxes(num_images: int, height: int, width: int, view: View, generator: torch.Generator) -> Tensor:
    """(top, left, height, width) of a crop for each image, in whole pixels.

    Area uniform in the view's range, log of the aspect uniform in ±log 4/3; a side that exceeds the image is
    clamped to it (BYOL's sampler), where torchvision would draw again.
    """
    device = generator.device
    u_5B = torch.rand(5, num_images, generator=generator, device=device)
    area_B = (view.min_area + (view.max_area - view.min_area) * u_5B[0]) * height * width
    aspect_B = torch.exp((2 * u_5B[1] - 1) * math.log(4 / 3))
    wide_B = (area_B * aspect_B).sqrt().round().clamp(1, width)
    high_B = (area_B / aspect_B).sqrt().round().clamp(1, height)
    if view.crop < 1:
        whole_B = u_5B[4] >= view.crop
        wide_B, high_B = wide_B.masked_fill(whole_B, width), high_B.masked_fill(whole_B, height)
    top_B = (u_5B[2] * (height - high_B + 1)).floor().clamp(max=height - 1)
    left_B = (u_5B[3] * (width - wide_B + 1)).floor().clamp(max=width - 1)
    return torch.stack(
        [top_B.minimum(height - high_B), left_B.minimum(width - wide_B), high_B, wide_B], dim=1
    )


def crop_resize(images_BCHW: Tensor, box_B4: Tensor, size: int, flip_B: Tensor | None = None) -> Tensor:
    """Each image's box, resized to size×size by antialiased bicubic, flipped where told; uint8."""
    top_B, left_B, high_B, wide_B = box_B4.to(images_BCHW.device).unbind(1)
    rows_BsH = resize_matrix(top_B, high_B, images_BCHW.shape[2], size)
    columns_BsW = resize_matrix(left_B, wide_B, images_BCHW.shape[3], size)
    if flip_B is not None:
        flip_B11 = flip_B.to(images_BCHW.device)[:, None, None]
        columns_BsW = columns_BsW.flip(1).where(flip_B11, columns_BsW)
    num_images, channels, height, width = images_BCHW.shape
    pixels = images_BCHW.transpose(1, 2).reshape(num_images, height, channels * width).float()
    pixels = torch.bmm(rows_BsH, pixels).view(num_images, size * channels, width)
    pixels = torch.bmm(pixels, columns_BsW.transpose(1, 2)).view(num_images, size, channels, size)
    return pixels.round_().clamp_(0, 255).to(torch.uint8).transpose(1, 2).contiguous()


def resize_whole(images_BCHW: Tensor, size: int) -> Tensor:
    """Every image as a whole at size×size, for evaluation; uint8."""
    num_images, _, height, width = images_BCHW.shape
    if (height, width) == (size, size):
        return images_BCHW
    box_4 = torch.tensor([0.0, 0.0, height, width], device=images_BCHW.device)
    return crop_resize(images_BCHW, box_4.expand(num_images, 4), size)


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
