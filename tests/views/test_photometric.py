import colorsys
import itertools

import pytest
import torch
from tests.views.test_colour import adjust_brightness, adjust_colour, adjust_contrast, grey
from torch import Tensor

from semppl.core.share import Share
from semppl.views import photometric
from semppl.views.colour import blur, normalise, solarise
from semppl.views.photometric import (
    augment_at_once,
    augment_by_order,
    augment_on_cpu,
    draw_photometric,
    finish,
    interpret,
)
from semppl.views.recipe import View, paper_recipe

_ZERO, _ONE = torch.zeros(3), torch.ones(3)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _noise(num_images: int, size: int, seed: int = 0) -> Tensor:
    return _crops(num_images, size, seed).float() / 255


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


@pytest.fixture(params=[augment_at_once, augment_by_order])
def augment(request):
    return request.param


def _grey(x: Tensor) -> Tensor:
    return grey(x)[:, None].expand_as(x)


def _jitter(augment, x: Tensor, view: View, amounts: list[float] | None = None) -> Tensor:
    """The jitter alone, with drawn or given amounts."""
    draws = draw_photometric(view, len(x), _generator(), x.device)
    if amounts is not None:
        strength = torch.tensor([view.brightness, view.contrast, view.saturation, view.hue])
        share_4 = (torch.tensor(amounts) / strength.clamp(min=1e-9) + 1) / 2
        draws.u_13B[8:12] = share_4[:, None]
    return augment(255 * x, draws, _ZERO, _ONE)


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


def test_brightness_is_drawn_evenly_from_both_sides_for_each_image(augment):
    half = torch.full((2000, 3, 2, 2), 0.5)
    delta = _jitter(augment, half, _only("brightness", 0.4))[:, 0, 0, 0] - 0.5
    _is_uniform(delta, -0.4, 0.4)


def test_contrast_is_drawn_evenly_around_one_for_each_image(augment):
    x = torch.tensor([[0.4, 0.4], [0.6, 0.6]]).expand(2000, 3, 2, 2)
    result = _jitter(augment, x, _only("contrast", 0.4))
    _is_uniform((result[:, 0, 1, 0] - result[:, 0, 0, 0]) / 0.2, 0.6, 1.4)


def test_saturation_is_drawn_evenly_around_one_for_each_image(augment):
    x = torch.tensor([0.8, 0.4, 0.4]).view(3, 1, 1).expand(2000, 3, 2, 2)
    result = _jitter(augment, x, _only("saturation", 0.2))
    _is_uniform((result[:, 0, 0, 0] - result[:, 1, 0, 0]) / 0.4, 0.8, 1.2)


def test_hue_is_drawn_evenly_from_both_sides_for_each_image(augment):
    x = torch.tensor([0.0, 0.0, 1.0]).view(3, 1, 1).expand(2000, 3, 2, 2)
    result = _jitter(augment, x, _only("hue", 0.1))[:, :, 0, 0].tolist()
    _is_uniform(torch.tensor([colorsys.rgb_to_hsv(*rgb)[0] for rgb in result]) - 2 / 3, -0.1, 0.1)


def _is_uniform(drawn_B: Tensor, low: float, high: float) -> None:
    expected = torch.linspace(low, high, len(drawn_B))
    assert (drawn_B.sort().values - expected).abs().max() < 0.04 * (high - low)
    assert drawn_B.min() > low - 1e-4
    assert drawn_B.max() < high + 1e-4


def test_brightness_and_contrast_come_in_both_orders(augment):
    x = torch.tensor([[0.0, 0.2], [0.7, 1.0]]).expand(200, 3, 2, 2)
    view = _plain(jitter=1.0, brightness=0.4, contrast=0.5, saturation=0.0, hue=0.0)
    delta_B, factor_B = torch.full((200,), 0.32), torch.full((200,), 1.4)
    bright_first = adjust_contrast(adjust_brightness(x, delta_B), factor_B)
    contrast_first = adjust_brightness(adjust_contrast(x, factor_B), delta_B)
    result = _jitter(augment, x, view, [0.32, 0.4, 0.0, 0.0])
    is_bright_first = torch.isclose(result, bright_first, atol=1e-5).all(dim=(1, 2, 3))
    is_contrast_first = torch.isclose(result, contrast_first, atol=1e-5).all(dim=(1, 2, 3))
    assert (is_bright_first ^ is_contrast_first).all()
    assert 70 <= is_bright_first.sum() <= 130


def test_every_order_of_the_four_parts_occurs_and_nothing_else(augment):
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
    result = _jitter(augment, image.expand(480, -1, -1, -1), view, [0.36, 0.36, 0.45, 0.18])
    distance, order = (result[:, None] - torch.stack(outcomes, dim=1)).abs().amax((2, 3, 4)).min(1)
    assert distance.max() < 1e-5
    assert order.bincount(minlength=18).min() >= 8


def test_jitter_of_probability_or_strength_zero_leaves_images_alone(augment):
    x = _noise(5, 4)
    assert torch.equal(_jitter(augment, x, _plain(jitter=0.0)), x)
    assert torch.equal(_jitter(augment, x, _only("hue", 0.0)), x)


def test_one_coin_decides_on_all_four_parts_of_the_jitter(augment):
    x = _noise(1, 4).expand(2000, -1, -1, -1)
    result = _jitter(augment, x, _plain(jitter=0.8))
    alone = (result == x).all(dim=(1, 2, 3)).float().mean()
    assert 0.17 < alone < 0.23


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, lambda x: x),
        ({"grey": 1.0}, _grey),
        ({"solarise": 1.0}, lambda x: solarise(x, "invert")),
        ({"solarise": 1.0, "solarise_by": "binarise"}, lambda x: solarise(x, "binarise")),
        ({"grey": 1.0, "solarise": 1.0}, lambda x: solarise(_grey(x), "invert")),
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


def test_the_steps_come_in_byols_order(augment):
    crops = _crops(2, 20)
    mean_3, std_3 = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    view = _plain(20, grey=1.0, blur=1.0, solarise=1.0)
    x = blur(_grey(crops.float() / 255), torch.full((2,), 1.05), 3)
    expected = normalise(solarise(x, "invert"), mean_3, std_3)
    draws = draw_photometric(view, 2, _generator(), crops.device)
    draws.u_13B[12] = 0.5
    assert torch.allclose(augment(crops, draws, mean_3, std_3), expected, atol=1e-5)


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


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jitter": 1.0, "hue": 0.5, "saturation": 0.9, "brightness": 0.8, "contrast": 0.9},
        {"jitter": 1.0, "saturation": 0.0, "hue": 0.0},
        {"jitter": 1.0, "brightness": 0.0, "contrast": 0.0, "saturation": 0.0},
        {"jitter": 0.0, "grey": 0.0},
        {"blur": 0.5, "solarise": 0.5},
        {"blur": 1.0, "solarise": 0.3, "solarise_by": "binarise", "jitter": 0.0},
    ],
)
def test_both_ways_give_the_same_views(changes):
    crops = torch.cat([_crops(150, 20), torch.zeros(1, 3, 20, 20, dtype=torch.uint8)])
    view = View(size=20, min_area=0.1, **changes)
    mean_3, std_3 = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    draws = draw_photometric(view, len(crops), _generator(), crops.device)
    one = augment_at_once(crops, draws, mean_3, std_3)
    other = augment_by_order(crops, draws, mean_3, std_3)
    # a pixel within rounding of the middle may fall on either side of a solarisation by threshold
    far = (one - other).abs() > 1e-4
    assert far.float().mean() < (1e-3 if view.solarise_by == "binarise" else 1e-9)
    assert one.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("threads", "side", "way"),
    [
        (1, 24, "at once"),
        (1, 64, "by order"),
        (2, 32, "at once"),
        (2, 96, "by order"),
        (16, 32, "at once"),
        (16, 96, "by order"),
    ],
)
def test_a_cpu_takes_the_way_that_was_faster(threads, side, way, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(photometric, "augment_at_once", lambda *given: "at once")
    monkeypatch.setattr(photometric, "augment_by_order", lambda *given: "by order")
    draws = draw_photometric(View(size=side, min_area=0.1), 128, _generator(), torch.device("cpu"))
    assert augment_on_cpu(torch.empty(128, 3, side, side), draws, _ZERO, _ONE) == way


def test_parts_that_drew_the_same_number_still_have_places_of_their_own():
    view = View(size=8, min_area=0.1)
    draws = draw_photometric(view, 3, _generator(), torch.device("cpu"))
    draws.u_13B[4:8] = torch.tensor([[0.5, 0.5, 0.2], [0.5, 0.1, 0.2], [0.5, 0.5, 0.7], [0.5, 0.5, 0.2]])
    places = interpret(draws).place_4B
    assert places.T.tolist() == [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2]]


def test_odd_and_even_views_share_a_compiled_stage():
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    stage = torch.compile(augment_at_once, dynamic=False, backend=count)
    for view in paper_recipe(4, 2, 40, 24):
        crops = _crops(2, view.size)
        draws = draw_photometric(view, 2, _generator(), crops.device)
        stage(crops, draws, _ZERO, _ONE)
    assert len(graphs) == 2


def test_a_compiled_stage_gives_the_same_views():
    crops = _crops(6, 12)
    view = View(size=12, min_area=0.1, blur=0.5, blur_taps=3, solarise=0.5)
    draws = draw_photometric(view, 6, _generator(), crops.device)
    plain = augment_at_once(crops, draws, _ZERO, _ONE)
    compiled = torch.compile(augment_at_once, dynamic=False, backend="aot_eager")
    assert torch.allclose(compiled(crops, draws, _ZERO, _ONE), plain, atol=1e-5)


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


def test_the_views_of_shares_are_those_of_the_whole():
    crops = _crops(7, 12)
    for view in paper_recipe(2, 0, 12, 6):
        whole = finish(crops, view, _ZERO, _ONE, _generator(3))
        parts = [
            finish(crops[rows.slice], view, _ZERO, _ONE, _generator(3), rows=rows)
            for rows in (Share(rank, 3).rows(7) for rank in range(3))
        ]
        assert torch.allclose(torch.cat(parts), whole, atol=1e-6)
