"""Colour, blur and solarisation of a whole batch, parameters drawn for each image.

Shapes: B images, 3 channels, s×s pixels in [0, 1]. The operators and their order are BYOL's: jitter (its four
parts in a random order for each image) → grey → blur → solarise → clip → normalise.

There are two ways to the same views; a test holds them against each other. `augment_at_once` has fixed shapes
and no branch that depends on a draw, so it can be compiled into a few passes over the pixels and recorded in
a CUDA graph; a CPU takes it for small images. `augment_by_order` takes images with the same order of jitter
together and does only what was drawn for them, a few images at a time, so that they stay in a CPU's cache: at
96 px on two cores four times as fast as torchvision's image by image (docs/performance.md).
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

from semppl.core.rng import uniforms
from semppl.core.share import Rows
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
# measured on one core and on two, with colours, at 16 to 96 px: nanoseconds for a pixel of `augment_at_once`,
# which threads share, and of `augment_by_order`, whose groups are too small for that, and what its calls cost
_MEASURED_THREADS: Final = 2
_AT_ONCE: Final = 68.0
_BY_ORDER: Final = 18.5
_CALLS: Final = 5e6
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)


class Kind(NamedTuple):
    """What the stage does for a view, apart from how often: views of one kind share a compiled stage."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    taps: int
    """Of the blur; 1 if there is none."""
    solarise_by: str


class Draws(NamedTuple):
    """All that the stage needs to know for a batch."""

    kind: Kind
    u_13B: Tensor
    """Numbers in [0, 1) for each image."""
    chance_4: Tensor
    """Probabilities of jitter, grey, blur and solarisation."""


class Parameters(NamedTuple):
    """What the draws mean."""

    jitter_B: Tensor
    grey_B: Tensor
    blur_B: Tensor
    solarise_B: Tensor
    place_4B: Tensor
    """0 to 3: when brightness, contrast, saturation and hue have their turn."""
    amount_4B: Tensor
    """Added brightness and hue; what is added to factor 1 for contrast and saturation."""
    sigma_B: Tensor


Augment = Callable[[Tensor, Draws, Tensor, Tensor], Tensor]


def finish(
    crops_B3ss: Tensor,
    view: View,
    mean_3: Tensor,
    std_3: Tensor,
    generator: torch.Generator,
    augment: Augment | None = None,
    rows: Rows | None = None,
) -> Tensor:
    """uint8 crops → augmented, normalised float views; `augment` may be a compiled one, and `rows` says which
    of a larger batch the crops are.
    """
    if augment is None:
        augment = augment_on_cpu if crops_B3ss.device.type == "cpu" else augment_at_once
    draws = draw_photometric(view, len(crops_B3ss) if rows is None else rows, generator, crops_B3ss.device)
    return augment(crops_B3ss, draws, mean_3, std_3)


def draw_photometric(view: View, rows: Rows | int, generator: torch.Generator, device: torch.device) -> Draws:
    """One draw for a view."""
    u_13B = uniforms(13, rows, generator).to(device)
    jitter = (view.brightness, view.contrast, view.saturation, view.hue) if view.jitter else (0.0,) * 4
    kind = Kind(*jitter, view.taps if view.blur else 1, view.solarise_by)
    return Draws(kind, u_13B, _chances(view, device))


@cache
def _chances(view: View, device: torch.device) -> Tensor:
    return torch.tensor([view.jitter, view.grey, view.blur, view.solarise], device=device)


def interpret(draws: Draws) -> Parameters:
    """From uniform numbers to parameters."""
    u_13B = draws.u_13B
    jitter_B, grey_B, blur_B, solarise_B = u_13B[:4] < draws.chance_4[:, None]
    mine_41B, theirs_14B = u_13B[4:8, None], u_13B[None, 4:8]
    part_4 = torch.arange(4, device=u_13B.device)
    # the place of a part is the number of parts before it; of equal numbers the first part comes first
    first_441 = (part_4[None] < part_4[:, None])[:, :, None]
    before_44B = (theirs_14B < mine_41B) | ((theirs_14B == mine_41B) & first_441)
    amount_4B = torch.stack([a * (2 * u_B - 1) for a, u_B in zip(draws.kind[:4], u_13B[8:12], strict=True)])
    sigma_B = 0.1 + 1.9 * u_13B[12]
    return Parameters(jitter_B, grey_B, blur_B, solarise_B, before_44B.sum(1), amount_4B, sigma_B)


def augment_on_cpu(crops_B3ss: Tensor, draws: Draws, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """Whichever way is faster for so many pixels and threads; more than two were not measured."""
    num_pixels, num_threads = crops_B3ss[:, 0].numel(), min(torch.get_num_threads(), _MEASURED_THREADS)
    at_once = num_pixels * _AT_ONCE / num_threads < _CALLS + num_pixels * _BY_ORDER
    return (augment_at_once if at_once else augment_by_order)(crops_B3ss, draws, mean_3, std_3)


def augment_at_once(
    crops_B3ss: Tensor,
    draws: Draws,
    mean_3: Tensor,
    std_3: Tensor,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Everything for every image, kept where it was drawn; the result lies in memory pixel by pixel."""
    drawn, kind = interpret(draws), draws.kind
    red, green, blue = planes(crops_B3ss)
    rgb = (red.float() / 255, green.float() / 255, blue.float() / 255)
    if any(kind[:4]):
        rgb = _jitter_at_once(rgb, drawn, kind)
    luma, grey_B11 = grey(rgb), drawn.grey_B[:, None, None]
    rgb = (luma.where(grey_B11, rgb[0]), luma.where(grey_B11, rgb[1]), luma.where(grey_B11, rgb[2]))
    if kind.taps > 1:
        x = torch.stack(rgb, dim=1)
        rgb = planes(blur(x, drawn.sigma_B, kind.taps).where(drawn.blur_B[:, None, None, None], x))
    finished = []
    for i, plane in enumerate(rgb):
        solarised = solarise(plane, kind.solarise_by).where(drawn.solarise_B[:, None, None], plane)
        finished.append(((solarised.clamp(0, 1) - mean_3[i]) / std_3[i]).to(dtype))
    return torch.stack(finished, dim=3).permute(0, 3, 1, 2)


def _jitter_at_once(rgb: Planes, drawn: Parameters, kind: Kind) -> Planes:
    """What comes before the contrast, the contrast, and what comes after it."""
    before_4B = drawn.place_4B < drawn.place_4B[_CONTRAST]
    jittered = _beside_contrast(rgb, drawn.place_4B, drawn.amount_4B * before_4B, kind)
    if kind.contrast:
        factor_B = 1 + drawn.amount_4B[_CONTRAST]
        jittered = adjust_contrast(jittered, factor_B, channel_means(jittered))
    jittered = _beside_contrast(jittered, drawn.place_4B, drawn.amount_4B * ~before_4B, kind)
    jitter_B11 = drawn.jitter_B[:, None, None]
    red, green, blue = (new.where(jitter_B11, old) for new, old in zip(jittered, rgb, strict=True))
    return red, green, blue


def _beside_contrast(rgb: Planes, place_4B: Tensor, amount_4B: Tensor, kind: Kind) -> Planes:
    """Brightness between the colours before and after it; saturation and hue side by side are one."""
    early_4B = amount_4B * (place_4B < place_4B[_BRIGHTNESS])
    late_4B = amount_4B - early_4B
    if kind.saturation or kind.hue:
        rgb = adjust_colour(rgb, 1 + early_4B[_SATURATION], early_4B[_HUE])
    if kind.brightness:
        rgb = adjust_brightness(rgb, amount_4B[_BRIGHTNESS])
    if kind.saturation or kind.hue:
        rgb = adjust_colour(rgb, 1 + late_4B[_SATURATION], late_4B[_HUE])
    return rgb


def augment_by_order(crops_B3ss: Tensor, draws: Draws, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """A few images at a time, and only what was drawn for them."""
    drawn, kind = interpret(draws), draws.kind
    views_B3ss = torch.empty(crops_B3ss.shape)
    for index_G, order in _groups(drawn, kind):
        rgb = planes(crops_B3ss[index_G].float().div_(255))
        rgb = _jitter_in(order, rgb, drawn.amount_4B[:, index_G])
        x_G3ss = torch.stack(rgb, dim=1)
        _finish_some_(x_G3ss, drawn, index_G, kind)
        views_B3ss.index_copy_(0, index_G, normalise(x_G3ss.clamp_(0, 1), mean_3, std_3))
    return views_B3ss


def _groups(drawn: Parameters, kind: Kind) -> Iterator[tuple[Tensor, list[int]]]:
    """Images that have the same parts in the same order; order [] is no jitter."""
    parts = torch.tensor([part for part in range(4) if kind[part]], dtype=torch.long)
    order_PB = parts[drawn.place_4B[parts].argsort(0)]
    digits_P = 4 ** torch.arange(len(parts))
    code_B = (order_PB * digits_P[:, None]).sum(0).where(drawn.jitter_B, -1)
    for code in code_B.unique().tolist():
        order = [] if code < 0 else [code >> 2 * place & 3 for place in range(len(parts))]
        for index_G in (code_B == code).nonzero().squeeze(1).split(_GROUP):
            yield index_G, order


def _jitter_in(order: list[int], rgb: Planes, amount_4G: Tensor) -> Planes:
    """The parts one after another; saturation and hue side by side are one."""
    factor_4G, none_G = 1 + amount_4G, torch.zeros(amount_4G.shape[1])
    saturation_G, hue_G = 1 + none_G, none_G
    for part, following in zip(order, [*order, -1][1:], strict=True):
        if part == _BRIGHTNESS:
            rgb = adjust_brightness(rgb, amount_4G[part])
        elif part == _CONTRAST:
            rgb = adjust_contrast(rgb, factor_4G[part], channel_means(rgb))
        elif part == _SATURATION:
            saturation_G = factor_4G[part]
        elif part == _HUE:
            hue_G = amount_4G[part]
        last_colour = part in (_SATURATION, _HUE) and following not in (_SATURATION, _HUE)
        if last_colour:
            rgb = adjust_colour(rgb, saturation_G, hue_G)
            saturation_G, hue_G = 1 + none_G, none_G
    return rgb


def _finish_some_(x_G3ss: Tensor, drawn: Parameters, index_G: Tensor, kind: Kind) -> None:
    some = drawn.grey_B[index_G].nonzero().squeeze(1)
    if len(some):
        luma = grey(planes(x_G3ss[some]))
        x_G3ss.index_copy_(0, some, luma[:, None].expand(-1, 3, -1, -1))
    some = drawn.blur_B[index_G].nonzero().squeeze(1)
    if len(some) and kind.taps > 1:
        x_G3ss.index_copy_(0, some, blur(x_G3ss[some], drawn.sigma_B[index_G[some]], kind.taps))
    some = drawn.solarise_B[index_G].nonzero().squeeze(1)
    if len(some):
        x_G3ss.index_copy_(0, some, solarise(x_G3ss[some], kind.solarise_by))
