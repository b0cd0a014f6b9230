import colorsys
import itertools
import math

import pytest
import torch
from torch import Tensor

from semppl.views import colour
from semppl.views.colour import blur, channel_means, normalise, planes, solarise


def _noise(num_images: int, size: int, seed: int = 0) -> Tensor:
    return torch.rand(num_images, 3, size, size, generator=torch.Generator().manual_seed(seed))


def adjust_brightness(x_B3ss: Tensor, delta_B: Tensor) -> Tensor:
    return torch.stack(colour.adjust_brightness(planes(x_B3ss), delta_B), dim=1)


def adjust_contrast(x_B3ss: Tensor, factor_B: Tensor) -> Tensor:
    rgb = planes(x_B3ss)
    return torch.stack(colour.adjust_contrast(rgb, factor_B, channel_means(rgb)), dim=1)


def adjust_colour(x_B3ss: Tensor, saturation_B: Tensor, hue_B: Tensor) -> Tensor:
    return torch.stack(colour.adjust_colour(planes(x_B3ss), saturation_B, hue_B), dim=1)


def grey(x_B3ss: Tensor) -> Tensor:
    return colour.grey(planes(x_B3ss))


def _recoloured(x_B3ss: Tensor, saturation: list[float], hue: list[float]) -> Tensor:
    """HSV by the standard library, pixel by pixel."""
    result = x_B3ss.clone()
    for image in range(len(x_B3ss)):
        for row, column in itertools.product(range(x_B3ss.shape[2]), range(x_B3ss.shape[3])):
            h, s, v = colorsys.rgb_to_hsv(*x_B3ss[image, :, row, column].tolist())
            rgb = colorsys.hsv_to_rgb((h + hue[image]) % 1.0, min(s * saturation[image], 1.0), v)
            result[image, :, row, column] = torch.tensor(rgb)
    return result


def test_brightness_is_added_and_clipped():
    x = torch.tensor([0.0, 0.1, 0.5, 0.9]).view(1, 1, 2, 2).expand(3, 3, 2, 2)
    result = adjust_brightness(x, torch.tensor([0.2, -0.3, 0.0]))
    assert torch.allclose(result[0], torch.tensor([[0.2, 0.3], [0.7, 1.0]]).expand(3, 2, 2))
    assert torch.allclose(result[1], torch.tensor([[0.0, 0.0], [0.2, 0.6]]).expand(3, 2, 2))
    assert torch.equal(result[2], x[2])


def test_contrast_stretches_around_the_mean_of_each_channel():
    first, second = torch.tensor([[0.2, 0.4], [0.6, 0.8]]), torch.tensor([[0.1, 0.1], [0.1, 0.5]])
    x = torch.stack([first, second, torch.full((2, 2), 0.3)]).expand(3, 3, 2, 2)
    result = adjust_contrast(x, torch.tensor([1.4, 2.0, 0.0]))
    assert torch.allclose(result[0, 0], torch.tensor([[0.08, 0.36], [0.64, 0.92]]))
    assert torch.allclose(result[0, 1], torch.tensor([[0.06, 0.06], [0.06, 0.62]]))
    assert torch.allclose(result[1, 0], torch.tensor([[0.0, 0.3], [0.7, 1.0]]), atol=1e-6)
    assert torch.allclose(result[1, 1], torch.tensor([[0.0, 0.0], [0.0, 0.8]]), atol=1e-6)
    assert torch.allclose(result[:, 2], torch.tensor(0.3))
    assert torch.allclose(result[2], torch.tensor([0.5, 0.2, 0.3])[:, None, None].expand(3, 2, 2))


def test_colours_turn_and_saturate_as_in_the_standard_library():
    corners = torch.tensor(list(itertools.product([0.0, 0.5, 1.0], repeat=3)) + [(0.2, 0.7, 0.7)] * 9)
    x = torch.cat([corners.T.reshape(1, 3, 6, 6), _noise(4, 6)]).repeat(2, 1, 1, 1)
    saturation = [1.2, 0.8, 1.0, 3.0, 0.0, 0.8, 1.2, 1.1, 0.9, 2.0]
    hue = [0.1, -0.1, 0.5, 0.03, 0.2, 0.0, -0.4, -0.07, 0.1, 1.0]
    result = adjust_colour(x, torch.tensor(saturation), torch.tensor(hue))
    assert torch.allclose(result, _recoloured(x, saturation, hue), atol=1e-5)


def test_a_third_of_a_turn_makes_red_green_and_back_makes_it_blue():
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1).expand(2, 3, 1, 1)
    result = adjust_colour(red, torch.ones(2), torch.tensor([1 / 3, -1 / 3]))
    assert torch.allclose(result[:, :, 0, 0], torch.tensor([[0.0, 1, 0], [0, 0, 1]]), atol=1e-6)


def test_factor_one_and_no_turn_change_no_colour():
    x = torch.cat([_noise(2, 16), torch.zeros(1, 3, 16, 16), torch.ones(1, 3, 16, 16)])
    assert torch.allclose(adjust_colour(x, torch.ones(4), torch.zeros(4)), x, atol=1e-6)


def test_grey_weighs_the_channels():
    x = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.2, 0.1]])[:, :, None, None]
    result = grey(x.expand(4, 3, 2, 2))
    expected = torch.tensor([0.2989, 0.5870, 0.1140, 0.14945 + 0.1174 + 0.0114])
    assert torch.allclose(result, expected[:, None, None].expand(4, 2, 2))


@pytest.mark.parametrize("taps", [3, 5, 9])
def test_blur_is_a_weighted_sum_over_neighbours_with_black_outside(taps):
    x, sigma = _noise(3, 6), [0.3, 1.0, 2.0]
    half = taps // 2
    expected = torch.zeros_like(x)
    for image, s in enumerate(sigma):
        kernel = [math.exp(-(d**2) / (2 * s * s)) for d in range(-half, half + 1)]
        kernel = [k / sum(kernel) for k in kernel]
        for row, column in itertools.product(range(6), repeat=2):
            for down, right in itertools.product(range(-half, half + 1), repeat=2):
                if 0 <= row + down < 6 and 0 <= column + right < 6:
                    weight = kernel[down + half] * kernel[right + half]
                    expected[image, :, row, column] += weight * x[image, :, row + down, column + right]
    assert torch.allclose(blur(x, torch.tensor(sigma), taps), expected, atol=1e-5)


def test_both_ways_to_blur_agree_to_half_a_grey_level():
    x, sigma_B = _noise(4, 16), torch.tensor([0.1, 0.5, 1.3, 2.0])
    weight_BT = torch.exp(-(torch.arange(4.0) ** 2) / (2 * sigma_B[:, None] ** 2))
    weight_BT = weight_BT / (2 * weight_BT.sum(1, keepdim=True) - 1)
    products = colour._blur_by_products(x, weight_BT)
    assert (products - colour._blur_by_shifts(x, weight_BT)).abs().max() < 0.5 / 255
    assert torch.allclose(blur(x, sigma_B, 7), colour._blur_by_shifts(x, weight_BT))


def test_blur_darkens_borders_only():
    blurred = blur(torch.ones(1, 3, 12, 12), torch.tensor([1.5]), 5)
    assert torch.allclose(blurred[:, :, 2:-2, 2:-2], torch.tensor(1.0))
    assert (blurred[:, :, [0, 1, -2, -1]] < 0.99).all()
    assert (blurred[:, :, :, [0, 1, -2, -1]] < 0.99).all()


def test_solarising_inverts_from_the_middle_on():
    x = torch.tensor([0.0, 0.3, 0.4999, 0.5, 0.6, 1.0]).expand(1, 3, 1, 6)
    assert torch.allclose(solarise(x, "invert"), torch.tensor([0.0, 0.3, 0.4999, 0.5, 0.4, 0.0]))
    assert torch.equal(solarise(x, "binarise"), torch.tensor([0.0, 0, 0, 1, 1, 1]).expand(1, 3, 1, 6))


def test_normalising_takes_the_mean_and_the_deviation_of_each_channel():
    x = torch.tensor([0.0, 0.2, 1.0]).view(1, 3, 1, 1)
    result = normalise(x, torch.tensor([0.5, 0.1, 0.6]), torch.tensor([0.25, 0.5, 0.2]))
    assert torch.allclose(result.flatten(), torch.tensor([-2.0, 0.2, 2.0]))


@pytest.mark.parametrize(
    "operator",
    [
        lambda x: adjust_brightness(x, torch.tensor([0.3, -0.2])),
        lambda x: adjust_contrast(x, torch.tensor([1.3, 0.5])),
        lambda x: adjust_colour(x, torch.tensor([1.3, 0.5]), torch.tensor([0.1, -0.1])),
        grey,
        lambda x: blur(x, torch.tensor([1.0, 2.0]), 3),
        lambda x: solarise(x, "invert"),
    ],
)
def test_no_operator_changes_what_it_is_given(operator):
    x = _noise(2, 6)
    before = x.clone()
    operator(x)
    assert torch.equal(x, before)
