"""The reference is the kernel as TensorFlow documents it, number by number in loops."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as V

from semppl.views.tensorflow import bicubic_weights, crop_side, resize_bicubic, tensorflow_crop
from semppl.views.whole import whole_view

f32 = np.float32

# Keys' cubic by whole steps of 1/1024 pixel: at i, and one pixel further
TABLE = [
    (
        f32((1.5 * (i / 1024) - 2.5) * (i / 1024) ** 2 + 1),
        f32(-0.5 * (1 + i / 1024) ** 3 + 2.5 * (1 + i / 1024) ** 2 - 4 * (1 + i / 1024) + 2),
    )
    for i in range(1025)
]


def _taps(inputs: int, outputs: int, out: int) -> list[tuple[int, f32]]:
    """Rows and weights of one row that is made."""
    place = (f32(out) + f32(0.5)) * (f32(inputs) / f32(outputs)) - f32(0.5)
    before = int(np.floor(place))
    step = round(float((place - f32(before)) * f32(1024)))
    weights = [TABLE[step][1], TABLE[step][0], TABLE[1024 - step][0], TABLE[1024 - step][1]]
    total, taps = f32(0), []
    for row, weight in zip(range(before - 1, before + 3), weights, strict=True):
        inside = 0 <= row < inputs
        taps.append((min(max(row, 0), inputs - 1), weight if inside else f32(0)))
        total += taps[-1][1]
    return [(row, weight * (f32(1) / total)) for row, weight in taps]


def _resized(image_3HW: Tensor, size: int) -> Tensor:
    """Down each of four columns, then across them."""
    image, (_, height, width) = image_3HW.numpy().astype(f32), image_3HW.shape
    made = np.zeros((3, size, size), f32)
    for channel, y, x in np.ndindex(made.shape):
        across = f32(0)
        for column, x_weight in _taps(width, size, x):
            down = f32(0)
            for row, y_weight in _taps(height, size, y):
                down += image[channel, row, column] * y_weight
            across += down * x_weight
        made[channel, y, x] = across
    return torch.from_numpy(made)


def _matrix(inputs: int, outputs: int) -> Tensor:
    """Weights [outputs, inputs]."""
    index_4O, weight_4O = bicubic_weights(inputs, outputs)
    return torch.zeros(outputs, inputs).scatter_add_(1, index_4O.T, weight_4O.T)


def _noise(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((7, 5), 3),
        ((5, 7), 11),
        ((13, 9), 6),
        ((3, 4), 13),
        ((1, 6), 4),
        ((2, 2), 5),
        ((40, 33), 2),
        ((4, 4), 1),
    ],
)
def test_every_value_is_that_of_the_kernel_to_the_last_bit(shape, size):
    image = _noise(3, *shape)
    assert torch.equal(resize_bicubic(image, size), _resized(image, size))


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(328, 224), (437, 224), (50, 224), (4, 4096), (1, 9), (4999, 7)]
)
def test_every_weight_is_that_of_the_kernel_to_the_last_bit(inputs, outputs):
    index_4O, weight_4O = bicubic_weights(inputs, outputs)
    expected = [_taps(inputs, outputs, out) for out in range(outputs)]
    assert index_4O.T.tolist() == [[row for row, _ in taps] for taps in expected]
    assert weight_4O.T.tolist() == [[float(weight) for _, weight in taps] for taps in expected]


def test_weights_by_hand():
    # places −1/4, 1/4, 3/4, 5/4; Keys at 1/4, 3/4 and 5/4 is 111, 29 and −9 of 128; the rest lies outside
    twice = torch.tensor([[111 / 102, -9 / 102], [111 / 140, 29 / 140]])
    assert torch.allclose(_matrix(2, 4), torch.cat([twice, twice.flip(0, 1)]))
    # places 1/2, 5/2; Keys at 1/2 and 3/2 is 9 and −1 of 16; one tap of each lies outside
    half = torch.tensor([[9.0, 9, -1, 0], [0, -1, 9, 9]]) / 17
    assert torch.allclose(_matrix(4, 2), half)


def test_places_between_pixels_are_rounded_to_1024_steps_and_halves_to_even_ones():
    weights = _matrix(4, 4096)
    # their places are 1/2, 3/2 and 5/2 steps after the first pixel
    at_once, third, fourth = weights[512:515]
    assert torch.equal(at_once, torch.tensor([1.0, 0, 0, 0]))
    assert torch.equal(third, fourth)
    t = 2 / 1024
    inside = torch.tensor([1.5 * t**3 - 2.5 * t**2 + 1, 2 * t**2 - 1.5 * t**3 + t / 2, (t**3 - t**2) / 2, 0])
    assert torch.allclose(third, inside / inside.sum())


def test_taps_beyond_the_border_weigh_nothing():
    index_4O, weight_4O = bicubic_weights(3, 6)
    assert index_4O.T.tolist() == [
        [0, 0, 0, 1],
        [0, 0, 1, 2],
        [0, 0, 1, 2],
        [0, 1, 2, 2],
        [0, 1, 2, 2],
        [1, 2, 2, 2],
    ]
    outside = [[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert (weight_4O.T == 0).int().tolist() == outside


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 224), (2, 7), (224, 5), (375, 224), (100, 224)])
def test_weights_sum_to_one_and_are_the_same_from_both_ends(inputs, outputs):
    weights = _matrix(inputs, outputs)
    assert torch.allclose(weights.sum(1), torch.ones(outputs), atol=1e-6)
    # a place within rounding of a half step may go to either side
    assert torch.allclose(weights, weights.flip(0, 1), atol=2e-3)


@pytest.mark.parametrize(("inputs", "outputs"), [(375, 224), (100, 224), (31, 7), (8, 64)])
def test_a_ramp_stays_a_ramp_away_from_the_borders(inputs, outputs):
    place = (torch.arange(outputs) + 0.5) * inputs / outputs - 0.5
    inner = (place >= 1) & (place < inputs - 2)
    made = _matrix(inputs, outputs) @ torch.arange(inputs).float()
    assert inner.any()
    assert (made - place)[inner].abs().max() < 0.5 / 1024 + 1e-4


@pytest.mark.parametrize("side", [1, 2, 5, 224])
def test_an_image_of_the_right_size_stays_as_it_is(side):
    image = _noise(3, side, side)
    assert torch.equal(resize_bicubic(image, side), image.float())


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 3), (5, 40), (300, 257)])
@pytest.mark.parametrize("size", [1, 8, 96])
def test_a_constant_image_of_any_shape_becomes_a_constant_square(shape, size):
    crop = tensorflow_crop(size, torch.full((3, *shape), 77, dtype=torch.uint8))
    assert crop.shape == (3, size, size)
    assert crop.dtype == torch.float32
    assert torch.allclose(crop, torch.tensor(77.0), atol=1e-4)


def test_the_seven_eighths_are_cut_down_and_at_least_one_pixel_is_left():
    sides = {1: 1, 2: 1, 7: 6, 8: 7, 9: 7, 224: 196, 256: 224, 333: 291, 375: 328, 500: 437}
    assert {shorter: crop_side(224, shorter) for shorter in sides} == sides
    assert all(crop_side(224, shorter) == shorter * 7 // 8 for shorter in range(2, 5000))
    assert [crop_side(size, 300) for size in (32, 96, 160)] == [150, 225, 250]


def test_other_sizes_are_cut_as_float32_rounds_them():
    # 23 · 14/46 = 7 and 39 · 124/156 = 31, on either side of which float32 and float64 fall
    assert (crop_side(14, 23), int(14 / 46 * 23)) == (6, 7)
    assert (crop_side(124, 39), int(124 / 156 * 39)) == (31, 30)


@pytest.mark.parametrize(
    ("height", "width", "side", "top", "left"),
    [
        (256, 256, 224, 16, 16),
        (8, 8, 7, 1, 1),
        (9, 9, 7, 1, 1),
        (10, 10, 8, 1, 1),
        (17, 16, 14, 2, 1),
        (16, 17, 14, 1, 2),
        (375, 500, 328, 24, 86),
        (500, 333, 291, 105, 21),
    ],
)
def test_the_middle_is_cut_out_first_and_odd_margins_are_larger_before_it(height, width, side, top, left):
    image = _noise(3, height, width)
    middle = image[:, top : top + side, left : left + side]
    assert torch.equal(tensorflow_crop(224, image), resize_bicubic(middle, 224).clamp(0, 255))


@pytest.mark.parametrize(("shape", "size"), [((20, 33), 5), ((12, 9), 32), ((300, 290), 300), ((1, 1), 400)])
def test_many_images_are_cropped_as_each_by_itself_wherever_they_lie(shape, size):
    images = _noise(5, 3, *shape)
    before = images.clone()
    crops = tensorflow_crop(size, images)
    assert torch.equal(crops, torch.stack([tensorflow_crop(size, image) for image in images]))
    by_pixel = images.to(memory_format=torch.channels_last)
    assert torch.equal(tensorflow_crop(size, by_pixel), crops)
    assert torch.equal(images, before)
    assert crops.is_contiguous()
    assert tensorflow_crop(size, images[:0]).shape == (0, 3, size, size)


def test_what_goes_beyond_black_and_white_at_an_edge_is_cut_off():
    tiles = (torch.arange(32)[:, None] // 4 + torch.arange(32) // 4) % 2
    image = (255 * tiles).to(torch.uint8).expand(3, 32, 32)
    beyond = resize_bicubic(image, 50)
    assert beyond.min() < -20
    assert beyond.max() > 275
    crop = tensorflow_crop(50, image)
    assert (crop.min(), crop.max()) == (0, 255)
    view = whole_view(crop[None], torch.zeros(3), torch.ones(3))
    assert torch.equal(view[0], crop / 255)
    assert ((view > 0) & (view < 1 / 255)).any(), "values are not rounded"


def test_it_is_neither_torchs_bicubic_nor_an_antialiased_one():
    image = _noise(3, 60, 60)
    ours = resize_bicubic(image, 40)
    sharper = F.interpolate(image[None].float(), size=(40, 40), mode="bicubic", antialias=False)[0]
    smoother = V.resize(image.float(), [40, 40], InterpolationMode.BICUBIC, antialias=True)
    assert (ours - sharper).abs().mean() > 3
    assert (ours - smoother).abs().mean() > 10
    # enlarging needs no antialiasing, so what is left are the steps
    ours = resize_bicubic(image, 100)
    smoother = V.resize(image.float(), [100, 100], InterpolationMode.BICUBIC, antialias=True)
    assert (ours - smoother).abs().max() < 0.5


def test_it_can_be_sent_to_a_worker():
    image = _noise(3, 9, 12)
    prepare = pickle.loads(pickle.dumps(partial(tensorflow_crop, 7)))
    assert torch.equal(prepare(image), tensorflow_crop(7, image))
