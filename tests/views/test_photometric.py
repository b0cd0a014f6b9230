import colorsys
import itertools
import math

import pytest
import torch
from torch import Tensor

from semppl.views import photometric
from semppl.views.photometric import (
    adjust_brightness,
    adjust_colour,
    adjust_contrast,
    blur,
    finish,
    grey,
    jitter,
    normalise,
    solarise,
)
from semppl.views.recipe import View

_ZERO, _ONE = torch.zeros(3), torch.ones(3)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _noise(num_images: int, size: int, seed: int = 0) -> Tensor:
    return torch.rand(num_images, 3, size, size, generator=_generator(seed))


def _crops(num_images: int, size: int, seed: int = 0) -> Tensor:
    shape = (num_images, 3, size, size)
    return torch.randint(0, 256, shape, generator=_generator(seed), dtype=torch.uint8)


def _plain(size: int = 8, **changes: float) -> View:
    """A view that does nothing but what it is told to."""
    return View(size=size, min_area=0.1, **{"jitter": 0.0, "grey": 0.0, **changes})


def _only(part: str, strength: float) -> View:
    """A view whose jitter always happens and has one part."""
    others = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    return _plain(jitter=1.0, **{**others, part: strength})


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


def test_grey_weighs_the_channels_and_repeats_the_result():
    x = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.2, 0.1]])[:, :, None, None]
    result = grey(x.expand(4, 3, 2, 2))
    expected = torch.tensor([0.2989, 0.5870, 0.1140, 0.14945 + 0.1174 + 0.0114])
    assert torch.allclose(result, expected[:, None, None, None].expand(4, 3, 2, 2))


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


def test_blur_darkens_borders_only():
    blurred = blur(torch.ones(1, 3, 12, 12), torch.tensor([1.5]), 5)
    assert torch.allclose(blurred[:, :, 2:-2, 2:-2], torch.tensor(1.0))
    assert (blurred[:, :, [0, 1, -2, -1]] < 0.99).all()
    assert (blurred[:, :, :, [0, 1, -2, -1]] < 0.99).all()


@pytest.mark.parametrize(
    ("size", "taps"), [(224, 23), (96, 9), (40, 5), (32, 3), (20, 3), (19, 1), (16, 1), (8, 1)]
)
def test_the_gaussian_has_about_a_tenth_of_the_views_pixels_as_taps(size, taps):
    view = View(size=size, min_area=0.1, blur=1.0)
    assert view.taps == taps
    spot = torch.zeros(1, 3, 31, 31)
    spot[:, :, 15, 15] = 1
    touched = blur(spot, torch.tensor([2.0]), view.taps)[0, 0] > 0
    half = taps // 2
    expected = torch.zeros(31, 31, dtype=torch.bool)
    expected[15 - half : 16 + half, 15 - half : 16 + half] = True
    assert torch.equal(touched, expected)


def test_taps_can_be_fixed_at_the_papers_23():
    assert View(size=96, min_area=0.1, blur_taps=23).taps == 23


def test_views_too_small_for_a_gaussian_are_not_blurred():
    crops = _crops(4, 8)
    blurred = finish(crops, _plain(8, blur=1.0), _ZERO, _ONE, _generator())
    assert torch.equal(blurred, crops.float() / 255)
    wider = finish(crops, _plain(8, blur=1.0, blur_taps=3), _ZERO, _ONE, _generator())
    assert not torch.allclose(wider, blurred)


def test_solarising_inverts_from_the_middle_on():
    x = torch.tensor([0.0, 0.3, 0.4999, 0.5, 0.6, 1.0]).expand(1, 3, 1, 6)
    assert torch.allclose(solarise(x, "invert"), torch.tensor([0.0, 0.3, 0.4999, 0.5, 0.4, 0.0]))
    assert torch.equal(solarise(x, "binarise"), torch.tensor([0.0, 0, 0, 1, 1, 1]).expand(1, 3, 1, 6))


def test_brightness_is_drawn_evenly_from_both_sides_for_each_image():
    half = torch.full((2000, 3, 2, 2), 0.5)
    delta = jitter(half, _only("brightness", 0.4), _generator())[:, 0, 0, 0] - 0.5
    _is_uniform(delta, -0.4, 0.4)


def test_contrast_is_drawn_evenly_around_one_for_each_image():
    x = torch.tensor([[0.4, 0.4], [0.6, 0.6]]).expand(2000, 3, 2, 2)
    result = jitter(x, _only("contrast", 0.4), _generator())
    _is_uniform((result[:, 0, 1, 0] - result[:, 0, 0, 0]) / 0.2, 0.6, 1.4)


def test_saturation_is_drawn_evenly_around_one_for_each_image():
    x = torch.tensor([0.8, 0.4, 0.4]).view(3, 1, 1).expand(2000, 3, 2, 2)
    result = jitter(x, _only("saturation", 0.2), _generator())
    _is_uniform((result[:, 0, 0, 0] - result[:, 1, 0, 0]) / 0.4, 0.8, 1.2)


def test_hue_is_drawn_evenly_from_both_sides_for_each_image():
    x = torch.tensor([0.0, 0.0, 1.0]).view(3, 1, 1).expand(2000, 3, 2, 2)
    result = jitter(x, _only("hue", 0.1), _generator())[:, :, 0, 0].tolist()
    _is_uniform(torch.tensor([colorsys.rgb_to_hsv(*rgb)[0] for rgb in result]) - 2 / 3, -0.1, 0.1)


def _is_uniform(drawn_B: Tensor, low: float, high: float) -> None:
    expected = torch.linspace(low, high, len(drawn_B))
    assert (drawn_B.sort().values - expected).abs().max() < 0.04 * (high - low)
    assert drawn_B.min() > low - 1e-4
    assert drawn_B.max() < high + 1e-4


def _with_equal_draws(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    monkeypatch.setattr(photometric, "_uniform", lambda x, generator: torch.full((len(x),), value))


def test_brightness_and_contrast_come_in_both_orders(monkeypatch):
    _with_equal_draws(monkeypatch, 0.9)
    x = torch.tensor([[0.0, 0.2], [0.7, 1.0]]).expand(200, 3, 2, 2)
    view = _plain(jitter=1.0, brightness=0.4, contrast=0.5, saturation=0.0, hue=0.0)
    delta_B, factor_B = torch.full((200,), 0.32), torch.full((200,), 1.4)
    bright_first = adjust_contrast(adjust_brightness(x, delta_B), factor_B)
    contrast_first = adjust_brightness(adjust_contrast(x, factor_B), delta_B)
    result = jitter(x, view, _generator())
    is_bright_first = torch.isclose(result, bright_first, atol=1e-5).all(dim=(1, 2, 3))
    is_contrast_first = torch.isclose(result, contrast_first, atol=1e-5).all(dim=(1, 2, 3))
    assert (is_bright_first ^ is_contrast_first).all()
    assert 70 <= is_bright_first.sum() <= 130


def test_every_order_of_the_four_parts_occurs_and_nothing_else(monkeypatch):
    _with_equal_draws(monkeypatch, 0.95)
    parts = [
        lambda x: adjust_brightness(x, torch.tensor([0.36])),
        lambda x: adjust_contrast(x, torch.tensor([1.36])),
        lambda x: adjust_colour(x, torch.tensor([1.45]), torch.tensor([0.0])),
        lambda x: adjust_colour(x, torch.tensor([1.0]), torch.tensor([0.18])),
    ]
    image = _noise(1, 6)
    outcomes: list[Tensor] = []
    for order in itertools.permutations(parts):
        x = image
        for part in order:
            x = part(x)
        if all((x - other).abs().max() > 1e-3 for other in outcomes):
            outcomes.append(x)
    # saturation and hue commute, so the 12 orders that have them side by side are 6
    assert len(outcomes) == 18

    view = _plain(jitter=1.0, brightness=0.4, contrast=0.4, saturation=0.5, hue=0.2)
    result = jitter(image.expand(480, -1, -1, -1), view, _generator())
    distance, order = (result[:, None] - torch.stack(outcomes, dim=1)).abs().amax((2, 3, 4)).min(1)
    assert distance.max() < 1e-5
    assert order.bincount(minlength=18).min() >= 8


def test_jitter_of_probability_or_strength_zero_leaves_images_alone():
    x = _noise(5, 4)
    assert torch.equal(jitter(x, _plain(jitter=0.0), _generator()), x)
    assert torch.equal(jitter(x, _only("hue", 0.0), _generator()), x)


def test_one_coin_decides_on_all_four_parts_of_the_jitter():
    x = _noise(1, 4).expand(2000, -1, -1, -1)
    result = jitter(x, _plain(jitter=0.8), _generator())
    alone = (result == x).all(dim=(1, 2, 3)).float().mean()
    assert 0.17 < alone < 0.23


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, lambda x: x),
        ({"grey": 1.0}, grey),
        ({"solarise": 1.0}, lambda x: solarise(x, "invert")),
        ({"solarise": 1.0, "solarise_by": "binarise"}, lambda x: solarise(x, "binarise")),
        ({"grey": 1.0, "solarise": 1.0}, lambda x: solarise(grey(x), "invert")),
    ],
)
def test_steps_of_probability_zero_never_and_of_probability_one_always_happen(changes, expected):
    crops = _crops(40, 6)
    result = finish(crops, _plain(6, **changes), _ZERO, _ONE, _generator())
    assert torch.allclose(result, expected(crops.float() / 255), atol=1e-6)


@pytest.mark.parametrize("step", ["grey", "blur", "solarise"])
def test_each_image_has_its_own_coin_for_each_step(step):
    crops = _crops(1, 6).expand(2000, -1, -1, -1)
    result = finish(crops, _plain(6, blur_taps=3, **{step: 0.2}), _ZERO, _ONE, _generator())
    happened = (result != crops.float() / 255).any(3).any(2).any(1)
    # a Gaussian much narrower than a pixel changes nothing, so a few blurs cannot be seen
    assert (0.15 if step == "blur" else 0.17) < happened.float().mean() < 0.23


def test_the_steps_come_in_byols_order(monkeypatch):
    _with_equal_draws(monkeypatch, 0.5)
    crops = _crops(2, 20)
    mean_3, std_3 = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    view = _plain(20, grey=1.0, blur=1.0, solarise=1.0)
    x = blur(grey(crops.float() / 255), torch.full((2,), 1.05), 3)
    expected = normalise(solarise(x, "invert"), mean_3, std_3)
    assert torch.allclose(finish(crops, view, mean_3, std_3, _generator()), expected, atol=1e-5)


def test_each_image_is_blurred_by_its_own_width_from_a_tenth_to_two_pixels():
    spot = torch.zeros(1000, 3, 9, 9, dtype=torch.uint8)
    spot[:, :, 4, 4] = 255
    result = finish(spot, _plain(9, blur=1.0, blur_taps=5), _ZERO, _ONE, _generator())[:, 0, 4]
    ratio = (result[:, 5] / result[:, 4]).double()
    _is_uniform((-1 / (2 * ratio.log())).sqrt(), 0.1, 2.0)


def test_finishing_ends_with_the_normalisation_of_each_channel():
    crops = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    mean_3, std_3 = torch.tensor([0.5, 0.1, 0.6]), torch.tensor([0.25, 0.5, 0.2])
    result = finish(crops, _plain(1), mean_3, std_3, _generator())
    assert torch.allclose(result.flatten(), torch.tensor([-2.0, 0.2, 2.0]))


def test_augmented_views_stay_between_black_and_white_and_finite():
    crops = torch.cat([_crops(60, 20), torch.zeros(4, 3, 20, 20), torch.full((4, 3, 20, 20), 255)])
    view = View(size=20, min_area=0.1, brightness=0.9, contrast=0.9, saturation=0.9, hue=0.5, blur=0.5)
    result = finish(crops.to(torch.uint8), view, _ZERO, _ONE, _generator())
    assert torch.isfinite(result).all()
    assert result.min() >= 0
    assert result.max() <= 1


def test_equal_images_of_a_batch_become_different_views():
    crops = _crops(1, 20).expand(32, -1, -1, -1)
    view = View(size=20, min_area=0.1, jitter=1.0, blur=1.0)
    assert len(finish(crops, view, _ZERO, _ONE, _generator()).unique(dim=0)) == 32


def test_the_seed_decides_the_views_and_the_crops_are_not_changed():
    crops = _crops(8, 20)
    before = crops.clone()
    view = View(size=20, min_area=0.1, blur=0.5, solarise=0.5)
    first = finish(crops, view, _ZERO, _ONE, _generator(1))
    assert torch.equal(first, finish(crops, view, _ZERO, _ONE, _generator(1)))
    assert not torch.equal(first, finish(crops, view, _ZERO, _ONE, _generator(2)))
    assert torch.equal(crops, before)
