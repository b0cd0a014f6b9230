import numpy as np
import pytest
import torch

from semppl.views.easy import cut_out, reach, shift


def noise(count, side):
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8)


@pytest.mark.parametrize(("side", "pixels"), [(1, 0), (15, 0), (16, 2), (32, 4), (224, 28)])
def test_an_image_moves_by_an_eighth_unless_it_is_tiny(side, pixels):
    assert reach(side) == pixels


def test_a_shift_is_a_window_of_the_mirrored_image():
    images, u = noise(20, 32), torch.rand(3, 20)
    found = shift(images, u, 0.5)
    for i, image in enumerate(images.numpy()):
        wide = np.pad(image, ((0, 0), (4, 4), (4, 4)), mode="reflect")
        top, left = (int(9 * u[axis, i]) for axis in (0, 1))
        window = wide[:, top : top + 32, left : left + 32]
        expected = window[:, :, ::-1] if u[2, i] < 0.5 else window
        assert np.array_equal(found[i].numpy(), expected)


def test_a_draw_from_the_middle_is_the_image_itself():
    images = noise(2, 16)
    assert torch.equal(shift(images, torch.full((3, 2), 0.5), 0.0), images)
    assert torch.equal(shift(images, torch.full((3, 2), 0.5), 1.0), images.flip(3))


@pytest.mark.parametrize("side", [1, 2, 8])
def test_tiny_images_do_not_move(side):
    images = noise(9, side)
    assert torch.equal(shift(images, torch.rand(3, 9), 0.0), images)


def test_a_hole_is_half_as_wide_as_the_view_and_may_reach_over_its_edge():
    holed = cut_out(torch.ones(3, 3, 8, 8), torch.tensor([[0.5, 0.0, 0.99], [0.5, 0.5, 0.99]]))
    for view, rows, columns in zip(holed, ((2, 6), (0, 2), (5, 8)), ((2, 6), (2, 6), (5, 8)), strict=True):
        expected = torch.ones(3, 8, 8)
        expected[:, slice(*rows), slice(*columns)] = 0
        assert torch.equal(view, expected)
