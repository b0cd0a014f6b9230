import pytest
import torch

from semppl.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur

BLURS = [defocus_blur, glass_blur, motion_blur, zoom_blur]


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _spot(side=225):
    x = torch.zeros(3, side, side)
    x[:, side // 2, side // 2] = 1
    return x


def _from_middle(side):
    return torch.arange(side) - (side - 1) / 2


@pytest.mark.parametrize("blur", BLURS)
@pytest.mark.parametrize("shape", [(50, 40), (1, 1), (1, 30)])
def test_an_image_of_one_colour_stays(blur, shape):
    x = torch.tensor([0.2, 0.5, 1.0])[:, None, None].expand(3, *shape)
    assert torch.allclose(blur(x, 5, _generator()), x, atol=1e-4)


@pytest.mark.parametrize("blur", BLURS[:3])
@pytest.mark.parametrize("severity", [1, 5])
def test_light_is_spread_and_none_is_lost(blur, severity):
    x = torch.zeros(3, 120, 120)
    x[:, 50:70, 50:70] = torch.rand(3, 20, 20)
    blurred = blur(x, severity, _generator())
    # shifts of glass fetch some pixels twice and others never
    tolerance = 0.05 if blur is glass_blur else 1e-4
    assert torch.allclose(blurred.mean((1, 2)), x.mean((1, 2)), rtol=tolerance)


@pytest.mark.parametrize(("severity", "radius"), [(1, 3), (5, 10)])
def test_out_of_focus_a_point_becomes_a_disc(severity, radius):
    light = defocus_blur(_spot(), severity, _generator())[0]
    distance = (_from_middle(225)[:, None] ** 2 + _from_middle(225) ** 2).sqrt()
    assert light[distance > radius * 225 / 224 + 1.5].abs().max() < 1e-6
    inside = light[distance < radius - 1.5]
    assert inside.std() < 0.1 * inside.mean()
    # an even disc has the variance r²/4 along each axis, and sharing light between two pixels adds 1/6
    variance = (light.sum(0) * _from_middle(225) ** 2).sum()
    assert variance == pytest.approx((radius * 225 / 224) ** 2 / 4 + 1 / 6, rel=0.03)


def test_discs_grow_with_the_image():
    small, large = (defocus_blur(_spot(side), 3, _generator())[0] for side in (225, 449))
    widths = [
        (light.sum(0) * _from_middle(len(light)) ** 2).sum().sqrt() / len(light) for light in (small, large)
    ]
    assert widths[0] == pytest.approx(widths[1].item(), rel=0.02)


@pytest.mark.parametrize(("severity", "sigma", "farthest", "times"), [(1, 0.7, 1, 2), (5, 1.5, 4, 2)])
def test_glass_fetches_grains_from_near(severity, sigma, farthest, times):
    x = torch.zeros(3, 224, 224)
    x[:, :, 112:] = 1
    seen = glass_blur(x, severity, _generator())
    reach = times * farthest + 8 * sigma + 3
    column = torch.arange(224) - 111.5
    assert torch.allclose(seen[:, :, column.abs() > reach], x[:, :, column.abs() > reach], atol=1e-5)
    assert (seen[:, :, column.abs() < farthest] - 0.5).abs().mean() < 0.45
    # the edge is ragged: blurred alone, all rows would be the same
    assert seen.std(dim=1).max() > 0.05


def test_grains_of_glass_are_shifted_whole_in_a_large_image():
    x = torch.zeros(3, 672, 672)
    x[:, :, 336:] = 1
    seen = glass_blur(x, 5, _generator())
    steps = (seen[0, 1:] - seen[0, :-1]).abs().max()
    small = glass_blur(x[:, 224:448, 224:448], 5, _generator())
    assert steps < (small[0, 1:] - small[0, :-1]).abs().max()
    assert seen.std(dim=1).max() > 0.05


@pytest.mark.parametrize(("severity", "length"), [(1, 20), (5, 40)])
def test_motion_draws_a_straight_trail_to_the_right(severity, length):
    for seed in range(5):
        light = motion_blur(_spot(), severity, _generator(seed))[0]
        down, right = (light > 1e-5).nonzero().T - 112
        assert right.min() >= -1
        assert (down.float() ** 2 + right.float() ** 2).sqrt().max() < length * 225 / 224 + 1.5
        assert (down.abs() <= right + 2).all()
        middle = torch.stack([(light * _from_middle(225)[:, None]).sum(), (light * _from_middle(225)).sum()])
        across = (down * middle[1] - right * middle[0]).abs() / middle.norm()
        assert across.max() < 1.5


def test_motion_has_an_angle_of_its_own_for_each_seed():
    trails = torch.stack([motion_blur(_spot(), 5, _generator(seed))[0] for seed in range(8)])
    slope = (trails.sum(2) * _from_middle(225)).sum(1) / (trails.sum(1) * _from_middle(225)).sum(1)
    assert slope.abs().max() <= 1.01
    assert slope.min() < -0.3
    assert slope.max() > 0.3


@pytest.mark.parametrize(("severity", "step", "times"), [(1, 0.01, 11), (4, 0.02, 13), (5, 0.03, 11)])
def test_zoom_is_a_mean_of_magnifications(severity, step, times):
    x = _from_middle(101).expand(3, 101, 101) / 101
    # a ramp magnified by z is a ramp with 1/z of its slope
    slope = (1 + sum(1 / (1 + i * step) for i in range(times))) / (times + 1)
    assert torch.allclose(zoom_blur(x, severity, _generator()), slope * x, atol=1e-5)


def test_zoom_leaves_the_middle_alone():
    x = torch.rand(3, 7, 9)
    assert torch.allclose(zoom_blur(x, 5, _generator())[:, 3, 4], x[:, 3, 4], atol=1e-5)
