"""Colour, blur and solarisation of a whole batch, parameters drawn for each image.

Shapes: B images, 3 channels, s×s pixels in [0, 1]. The operators and their order are BYOL's: jitter (its four
parts in a random order for each image) → grey → blur → solarise → clip → normalise.

There are two ways to the same views, one for each kind of machine; a test holds them against each other.
`augment_at_once` has fixed shapes and no branch that depends on a draw, so it can be compiled into a few
passes over the pixels and recorded in a CUDA graph. `augment_by_order` takes images with the same order of
jitter together and does only what was drawn for them, a few images at a time, so that they stay in a CPU's
cache: at 96 px on two cores four times as fast as torchvision's image by image (docs/performance.md).
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from semppl.views.colour import (
    Planes,
    adjust_brightness,
    adjust_colour,
    adjust_contrast,
    blur,
    channel_means,
    grey,
    normalise,
    planes,
    solarise,
)
from semppl.views.recipe import View

# images that stay in the cache together
_GROUP: Final = 16
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)


class Jitter(NamedTuple):
    """Whether, in which order and how much."""

    apply_B: Tensor
    place_4B: Tensor
    """0 to 3: when brightness, contrast, saturation and hue have their turn."""
    amount_4B: Tensor
    """Added brightness and hue; what is added to factor 1 for contrast and saturation."""


class Draws(NamedTuple):
    """The parameters of each image; None for what the view does not have."""

    jitter: Jitter | None
    grey_B: Tensor | None
    sigma_B: Tensor | None
    blur_B: Tensor | None
    solarise_B: Tensor | None


Augment = Callable[[Tensor, Draws, View, Tensor, Tensor], Tensor]


def finish(
    crops_B3ss: Tensor, view: View, mean_3: Tensor, std_3: Tensor, generator: torch.Generator
) -> Tensor:
    """uint8 crops → augmented, normalised float views."""
    augment = augment_by_order if crops_B3ss.device.type == "cpu" else augment_at_once
    draws = draw_photometric(view, len(crops_B3ss), generator, crops_B3ss.device)
    return augment(crops_B3ss, draws, view, mean_3, std_3)


def draw_photometric(view: View, num_images: int, generator: torch.Generator, device: torch.device) -> Draws:
    """All that is random about the stage."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, num_images, generator=generator, device=generator.device).to(device)

    jitter = None
    strength = (view.brightness, view.contrast, view.saturation, view.hue)
    if view.jitter and any(strength):
        apply_B = uniform() < view.jitter
        place_4B = uniform(4).argsort(0)
        amount_4B = torch.stack([a * (2 * uniform() - 1) for a in strength])
        jitter = Jitter(apply_B, place_4B, amount_4B)
    blurs = view.blur > 0 and view.taps > 1
    return Draws(
        jitter,
        uniform() < view.grey if view.grey else None,
        0.1 + 1.9 * uniform() if blurs else None,
        uniform() < view.blur if blurs else None,
        uniform() < view.solarise if view.solarise else None,
    )


def augment_at_once(
    crops_B3ss: Tensor,
    draws: Draws,
    view: View,
    mean_3: Tensor,
    std_3: Tensor,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Everything for every image, kept where it was drawn; the result lies in memory pixel by pixel."""
    red, green, blue = planes(crops_B3ss)
    rgb = (red.float() / 255, green.float() / 255, blue.float() / 255)
    if draws.jitter is not None:
        rgb = _jitter_at_once(rgb, draws.jitter)
    if draws.grey_B is not None:
        luma, grey_B11 = grey(rgb), draws.grey_B[:, None, None]
        rgb = (luma.where(grey_B11, rgb[0]), luma.where(grey_B11, rgb[1]), luma.where(grey_B11, rgb[2]))
    if draws.sigma_B is not None and draws.blur_B is not None:
        x = torch.stack(rgb, dim=1)
        rgb = planes(blur(x, draws.sigma_B, view.taps).where(draws.blur_B[:, None, None, None], x))
    finished = []
    for i, plane in enumerate(rgb):
        if draws.solarise_B is not None:
            plane = solarise(plane, view.solarise_by).where(draws.solarise_B[:, None, None], plane)  # noqa: PLW2901
        finished.append(((plane.clamp(0, 1) - mean_3[i]) / std_3[i]).to(dtype))
    return torch.stack(finished, dim=3).permute(0, 3, 1, 2)


def _jitter_at_once(rgb: Planes, jitter: Jitter) -> Planes:
    """Each of four places has all parts, neutral for the images that have them elsewhere.

    Contrast needs the mean of what came before it, so that is computed first, and then all in one pass.
    """
    before_4B = jitter.place_4B < jitter.place_4B[_CONTRAST]
    zeros_3B = torch.zeros(3, len(rgb[0]), device=rgb[0].device)
    mean_3B = channel_means(_in_order(rgb, jitter, jitter.amount_4B * before_4B, zeros_3B))
    jittered = _in_order(rgb, jitter, jitter.amount_4B, mean_3B)
    apply_B11 = jitter.apply_B[:, None, None]
    red, green, blue = (new.where(apply_B11, old) for new, old in zip(jittered, rgb, strict=True))
    return red, green, blue


def _in_order(rgb: Planes, jitter: Jitter, amount_4B: Tensor, mean_3B: Tensor) -> Planes:
    for place in range(4):
        bright_B, contrast_B, saturation_B, hue_B = amount_4B * (jitter.place_4B == place)
        rgb = adjust_brightness(rgb, bright_B)
        rgb = adjust_contrast(rgb, 1 + contrast_B, mean_3B)
        rgb = adjust_colour(rgb, 1 + saturation_B, hue_B)
    return rgb


def augment_by_order(crops_B3ss: Tensor, draws: Draws, view: View, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """A few images at a time, and only what was drawn for them."""
    views_B3ss = torch.empty(crops_B3ss.shape)
    for index_G, order in _groups(draws.jitter, len(crops_B3ss)):
        rgb = planes(crops_B3ss[index_G].float().div_(255))
        if draws.jitter is not None:
            rgb = _jitter_in(order, rgb, draws.jitter.amount_4B[:, index_G], view)
        x_G3ss = torch.stack(rgb, dim=1)
        _finish_some_(x_G3ss, draws, index_G, view)
        views_B3ss.index_copy_(0, index_G, normalise(x_G3ss.clamp_(0, 1), mean_3, std_3))
    return views_B3ss


def _groups(jitter: Jitter | None, num_images: int) -> Iterator[tuple[Tensor, list[int]]]:
    """Images that have the same parts in the same order; order [] is no jitter."""
    code_B = torch.full((num_images,), -1)
    if jitter is not None:
        order_4B = jitter.place_4B.argsort(0)
        digits_4 = torch.tensor([64, 16, 4, 1])
        code_B = (order_4B * digits_4[:, None]).sum(0).where(jitter.apply_B, -1)
    for code in code_B.unique().tolist():
        order = [] if code < 0 else [code >> 6, code >> 4 & 3, code >> 2 & 3, code & 3]
        for index_G in (code_B == code).nonzero().squeeze(1).split(_GROUP):
            yield index_G, order


def _jitter_in(order: list[int], rgb: Planes, amount_4G: Tensor, view: View) -> Planes:
    """The parts one after another; saturation and hue side by side are one."""
    factor_4G, none_G = 1 + amount_4G, torch.zeros(amount_4G.shape[1])
    saturation_G, hue_G = 1 + none_G, none_G
    for part, following in zip(order, [*order, -1][1:], strict=True):
        if part == _BRIGHTNESS and view.brightness:
            rgb = adjust_brightness(rgb, amount_4G[part])
        elif part == _CONTRAST and view.contrast:
            rgb = adjust_contrast(rgb, factor_4G[part], channel_means(rgb))
        elif part == _SATURATION:
            saturation_G = factor_4G[part]
        elif part == _HUE:
            hue_G = amount_4G[part]
        last_colour = part in (_SATURATION, _HUE) and following not in (_SATURATION, _HUE)
        if last_colour and (view.saturation or view.hue):
            rgb = adjust_colour(rgb, saturation_G, hue_G)
            saturation_G, hue_G = 1 + none_G, none_G
    return rgb


def _finish_some_(x_G3ss: Tensor, draws: Draws, index_G: Tensor, view: View) -> None:
    if draws.grey_B is not None and len(some := draws.grey_B[index_G].nonzero().squeeze(1)):
        luma = grey(planes(x_G3ss[some]))
        x_G3ss.index_copy_(0, some, luma[:, None].expand(-1, 3, -1, -1))
    if draws.sigma_B is not None and draws.blur_B is not None:
        some = draws.blur_B[index_G].nonzero().squeeze(1)
        if len(some):
            x_G3ss.index_copy_(0, some, blur(x_G3ss[some], draws.sigma_B[index_G[some]], view.taps))
    if draws.solarise_B is not None and len(some := draws.solarise_B[index_G].nonzero().squeeze(1)):
        x_G3ss.index_copy_(0, some, solarise(x_G3ss[some], view.solarise_by))
