import math

import pytest
import torch

from semppl.corruptions.filters import (
    convolve,
    gaussian_kernel,
    kernel_of,
    pixel_scale,
    trail_kernel,
    warp,
)


def _spot(side=9):
    x = torch.zeros(1, side, side)
    x[0, side // 2, side // 2] = 1
    return x


@pytest.mark.parametrize(
    ("shape", "scale"),
    [
        ((224, 224), 1),
        ((448, 600), 2),
        ((600, 448), 2),
        ((32, 32), 1 / 7),
        ((8, 500), 1 / 7),
        ((1, 1), 1 / 7),
    ],
)
def test_lengths_follow_the_shorter_side_down_to_32_pixels(shape, scale):
    assert pixel_scale(torch.zeros(3, *shape)) == pytest.approx(scale)


def test_a_point_becomes_the_kernel():
    kernel = torch.rand(5, 5)
    assert torch.allclose(convolve(_spot(), kernel)[0, 2:7, 2:7], kernel, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(7, 6), (3, 11), (1, 1), (1, 8), (2, 1)])
def test_a_convolution_is_a_sum_over_the_mirrored_image(height, width):
    x, kernel = torch.rand(2, height, width), torch.rand(7, 7)
    rows, columns = ([*range(side), *reversed(range(side))] for side in (height, width))
    expected = torch.zeros_like(x)
    for row in range(height):
        for column in range(width):
            for down in range(-3, 4):
                for right in range(-3, 4):
                    source = x[:, rows[(row - down) % len(rows)], columns[(column - right) % len(columns)]]
                    expected[:, row, column] += kernel[down + 3, right + 3] * source
    assert torch.allclose(convolve(x, kernel), expected, atol=1e-5)


@pytest.mark.parametrize("side", [17, 100, 254, 1023])
def test_a_convolution_is_right_for_sides_of_all_factors(side):
    x, kernel = torch.zeros(1, side, 20), torch.zeros(3, 3)
    x[0, :, 0], kernel[2, 1] = torch.arange(side), 1
    below = convolve(x, kernel)[0, :, 0]
    assert torch.allclose(below[1:], torch.arange(side - 1.0), atol=1e-2)


def test_blurring_evenly_keeps_the_mean_for_the_mirror_gives_back_what_left():
    x = torch.rand(3, 20, 13)
    assert torch.allclose(convolve(x, gaussian_kernel(2)).mean((1, 2)), x.mean((1, 2)), atol=1e-6)


def test_a_point_between_pixels_is_shared_by_them():
    assert torch.allclose(
        kernel_of(torch.tensor([[0.0, 0.25]]), torch.ones(1)),
        torch.tensor([[0, 0, 0], [0, 0.75, 0.25], [0, 0, 0]]),
    )
    kernel = kernel_of(torch.tensor([[-0.5, 0.5], [0.0, 0.0]]), torch.tensor([3.0, 1.0]))
    assert torch.allclose(kernel * 16, torch.tensor([[0.0, 3, 3], [0, 7, 3], [0, 0, 0]]))


def test_the_gaussian_has_its_width_and_is_cut_off_at_four():
    kernel = gaussian_kernel(2)
    assert kernel.shape == (17, 17)
    assert kernel.sum() == pytest.approx(1)
    place = torch.arange(-8, 9)
    assert (kernel.sum(0) * place**2).sum() == pytest.approx(4, rel=0.01)
    assert torch.equal(gaussian_kernel(1e-3), torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))


def test_a_trail_starts_at_the_point_and_fades_along_its_way():
    kernel = trail_kernel(6, 3, 0)
    assert kernel.shape == (13, 13)
    assert kernel[6].sum() == pytest.approx(1)
    assert kernel[6, :5].sum() == 0
    assert kernel[6, 9] / kernel[6, 7] == pytest.approx(math.exp(-(3**2 - 1) / (2 * 9)), rel=0.03)
    down = trail_kernel(6, 3, math.pi / 2)
    assert torch.allclose(down, kernel.T, atol=1e-6)


def test_pixels_are_fetched_from_below_and_from_the_right():
    x = torch.arange(12.0).view(1, 3, 4)
    shift = torch.zeros(2, 3, 4)
    assert torch.allclose(warp(x, shift), x, atol=1e-4)
    shift[0] = 1
    assert torch.allclose(warp(x, shift)[0, :2], x[0, 1:], atol=1e-4)
    shift[1] = -0.5
    assert torch.allclose(warp(x, shift)[0, :2, 1:], x[0, 1:, 1:] - 0.5, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_beyond_the_edge_is_the_mirror_image(shape):
    x = torch.rand(2, *shape)
    # one pixel beyond the middle of the first is its mirror image
    assert torch.allclose(warp(x, torch.full((2, *shape), -1.0))[:, 0, 0], x[:, 0, 0], atol=1e-5)
    assert torch.isfinite(warp(x, 50 * torch.randn(2, *shape))).all()
