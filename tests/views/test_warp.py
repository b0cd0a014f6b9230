import math
from itertools import product

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from semppl.views import warp as module
from semppl.views.warp import _matrix, warp, warping

LAST = 1 - 2**-24
"""The greatest of the numbers that are drawn."""


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    """Whatever the default is."""
    monkeypatch.setattr(module, "SHARE", 0.5)


def noise(count, side, dtype=torch.float):
    return torch.randn(count, 3, side, side, dtype=torch.double).to(dtype)


def drawn(count, coin=0.0, dtype=torch.float):
    u_4B = torch.rand(4, count, dtype=dtype)
    u_4B[0] = coin
    return u_4B


def by_hand(view_3ss, angle, shear_x, shear_y):
    """Pixel by pixel, with lists: a place in the warped view is sheared, then turned, and looked up."""
    side, planes = view_3ss.shape[-1], view_3ss.tolist()
    c, s, middle = math.cos(angle), math.sin(angle), (view_3ss.shape[-1] - 1) / 2

    def level(plane, row, column):
        return plane[row][column] if 0 <= row < side and 0 <= column < side else 0.0

    def look_up(plane, row, column):
        right, down = column - middle, row - middle
        right, down = right + shear_x * down, down + shear_y * right
        x, y = middle + c * right + s * down, middle - s * right + c * down
        left, top = math.floor(x), math.floor(y)
        return sum(
            abs(1 - i - (y - top)) * abs(1 - j - (x - left)) * level(plane, top + i, left + j)
            for i, j in product((0, 1), repeat=2)
        )

    pixels = [
        look_up(plane, row, column) for plane in planes for row in range(side) for column in range(side)
    ]
    return torch.tensor(pixels, dtype=torch.double).view_as(view_3ss)


# which views


@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.bfloat16])
@pytest.mark.parametrize("coin", [0.5, LAST])
def test_views_that_are_not_drawn_come_back_bit_for_bit(dtype, coin):
    views = noise(4, 9, dtype)
    found = warp(views, drawn(4, coin))
    assert found.dtype == dtype
    assert torch.equal(found, views)


def test_each_coin_decides_for_its_own_view():
    views, u = noise(40, 8), torch.rand(4, 40)
    found = warp(views, u)
    for i in range(40):
        assert torch.equal(found[i], views[i]) == (u[0, i] >= 0.5), i
        torch.testing.assert_close(found[i : i + 1], warp(views[i : i + 1], u[:, i : i + 1]))


@pytest.mark.parametrize("side", [1, 2, 7, 32])
def test_no_angle_and_no_shear_are_the_view_to_rounding(side):
    views = noise(3, side, torch.double)
    torch.testing.assert_close(warp(views, torch.tensor([0.0, 0.5, 0.5, 0.5])[:, None].expand(4, 3)), views)


def test_what_is_done_is_said_where_something_is(monkeypatch):
    assert warping() == {"share": 0.5, "turn": 30, "shear": 0.3}
    monkeypatch.setattr(module, "SHARE", 0.0)
    assert warping() is None


# how


@pytest.mark.parametrize("side", [1, 4, 5])
def test_pixels_are_those_of_a_loop(side):
    views, u = noise(12, side, torch.double), drawn(12, dtype=torch.double)
    u[1:, :2] = torch.tensor([0.0, LAST])
    found = warp(views, u)
    for i, view in enumerate(views):
        turn, x, y = (2 * u[1:, i] - 1).tolist()
        expected = by_hand(view, math.radians(30 * turn), 0.3 * x, 0.3 * y)
        torch.testing.assert_close(found[i], expected)


def test_a_positive_angle_turns_clockwise(monkeypatch):
    views, right = noise(2, 6), torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    monkeypatch.setattr(module, "TURN", 90)
    clockwise, back = warp(views, right)
    torch.testing.assert_close(clockwise, torch.rot90(views[0], -1, (1, 2)), atol=1e-5, rtol=0)
    torch.testing.assert_close(back, torch.rot90(views[1], 1, (1, 2)), atol=1e-5, rtol=0)


def centre(view_3ss):
    """Of its light: to the right and downwards of the middle, in halves of the side."""
    side = view_3ss.shape[-1]
    place = (2 * torch.arange(side) + 1) / side - 1
    light = view_3ss[0] / view_3ss[0].sum()
    return float((light.sum(0) * place).sum()), float((light.sum(1) * place).sum())


def test_a_spot_above_the_middle_goes_to_the_right_by_thirty_degrees_at_most():
    views = torch.zeros(1, 3, 64, 64)
    views[:, :, 14:18, 30:34] = 1
    x, y = centre(warp(views, torch.tensor([[0.0], [1.0], [0.5], [0.5]]))[0])
    assert (x, y) == pytest.approx((0.5 * math.sin(math.pi / 6), -0.5 * math.cos(math.pi / 6)), abs=0.005)


@pytest.mark.parametrize(("u", "to"), [((1.0, 0.5), (-0.15, 0.5)), ((0.0, 0.5), (0.15, 0.5))])
def test_a_shear_moves_what_is_below_to_a_side(u, to):
    views = torch.zeros(1, 3, 64, 64)
    views[:, :, 46:50, 30:34] = 1
    assert centre(warp(views, torch.tensor([[0.0], [0.5], *([x] for x in u)]))[0]) == pytest.approx(
        to, abs=0.005
    )
    aside = centre(warp(views.transpose(2, 3), torch.tensor([[0.0], [0.5], *([x] for x in u[::-1])]))[0])
    assert aside == pytest.approx(to[::-1], abs=0.005)


def test_what_comes_from_outside_is_the_mean_colour_and_the_middle_stays():
    (found,) = warp(torch.ones(1, 3, 32, 32), torch.tensor([[0.0], [1.0], [0.5], [0.5]]))
    for row, column in product((0, -1), repeat=2):
        assert found[:, row, column].eq(0).all()
    torch.testing.assert_close(found[:, 8:24, 8:24], torch.ones(3, 16, 16))


# the matrix


def one_matrix(angle, x, y):
    numbers = (torch.tensor([value], dtype=torch.double) for value in (angle, x, y))
    return _matrix(*numbers)[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0, 0, 0), [[1, 0, 0], [0, 1, 0]]),
        ((math.pi / 2, 0, 0), [[0, 1, 0], [-1, 0, 0]]),
        ((math.pi, 0, 0), [[-1, 0, 0], [0, -1, 0]]),
        ((0, 0.3, 0.1), [[1, 0.3, 0], [0.1, 1, 0]]),
        ((math.pi / 2, 0.3, 0.1), [[0.1, 1, 0], [-1, -0.3, 0]]),
        ((math.atan2(3, 4), 0.5, -0.5), [[0.5, 1.0, 0], [-1.0, 0.5, 0]]),
    ],
)
def test_matrices_by_hand(given, expected):
    torch.testing.assert_close(one_matrix(*given), torch.tensor(expected, dtype=torch.double))


def test_it_is_a_rotation_after_a_shear_which_alone_changes_areas():
    for _ in range(20):
        angle, x, y = (2 * torch.rand(3, dtype=torch.double) - 1).tolist()
        found = one_matrix(angle, x, y)
        turn, shear = one_matrix(angle, 0, 0)[:, :2], one_matrix(0, x, y)[:, :2]
        torch.testing.assert_close(found[:, :2], turn @ shear)
        assert found[:, :2].det().item() == pytest.approx(1 - x * y)
        assert found[:, 2].eq(0).all(), "around the middle"
        torch.testing.assert_close(turn @ one_matrix(-angle, 0, 0)[:, :2], torch.eye(2, dtype=torch.double))


# kinds of tensors


def test_pixel_by_pixel_in_memory_it_is_the_same_and_stays_so():
    views, u = noise(6, 8), torch.rand(4, 6)
    last = views.to(memory_format=torch.channels_last)
    found = warp(last, u)
    torch.testing.assert_close(found, warp(views, u))
    assert found.stride() == last.stride()
    assert warp(views, u).is_contiguous()


def test_precisions_agree():
    views, u = noise(20, 32, torch.double), torch.rand(4, 20)
    exact = warp(views, u.double())
    torch.testing.assert_close(warp(views.float(), u).double(), exact, atol=1e-4, rtol=0)
    rough = warp(views.bfloat16(), u)
    assert rough.dtype == torch.bfloat16
    assert torch.equal(rough, warp(views.bfloat16().float(), u).bfloat16()), "rounded once, at the end"


class Devices(TorchDispatchMode):
    """Where all results lie."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.seen |= {one.device.type for one in (made,) if isinstance(one, torch.Tensor)}
        return made


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_no_number_is_asked_of_the_device_and_nothing_made_beside_it(dtype):
    """A tensor without values has no answer to give."""
    views, u = torch.empty(6, 3, 8, 8, dtype=dtype, device="meta"), torch.empty(4, 6, device="meta")
    with Devices() as devices:
        found = warp(views, u)
    assert (found.shape, found.dtype) == (views.shape, dtype)
    assert devices.seen == {"meta"}
    with pytest.raises(RuntimeError, match=r"meta|Meta"):
        views[u[0] < 0.5]
