import pytest
import torch

from semppl.corruptions.weather import brightness, fog, frost, snow


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _grey(value, side=60):
    return torch.full((3, side, side), value)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_grey_grows_brighter_by_a_tenth_for_each_severity(severity):
    assert torch.allclose(brightness(_grey(0.3), severity, _generator()), _grey(0.3 + severity / 10))
    assert torch.allclose(brightness(_grey(0.0), severity, _generator()), _grey(severity / 10))
    assert torch.allclose(brightness(_grey(0.95), severity, _generator()), _grey(1.0))


def test_brighter_colours_keep_their_ratios_and_the_brightest_channel_decides():
    x = torch.tensor([0.1, 0.2, 0.4]).view(3, 1, 1)
    assert torch.allclose(brightness(x, 4, _generator()), 2 * x)
    assert torch.allclose(brightness(2 * x, 5, _generator()), 2.5 * x)


@pytest.mark.parametrize(("severity", "thickness"), [(1, 1.5), (3, 2.5), (5, 3.0)])
def test_fog_goes_from_the_darkened_image_to_the_brightest_pixel(severity, thickness):
    x = torch.full((3, 224, 224), 0.8)
    foggy = fog(x, severity, _generator())
    assert foggy.max() == pytest.approx(0.8)
    assert foggy.min() == pytest.approx(0.8 * 0.8 / (0.8 + thickness))
    assert torch.equal(foggy[0], foggy[2])


def test_fog_takes_contrast_by_the_same_share_everywhere():
    x = torch.full((3, 224, 224), 0.4)
    x[0] = 1.0
    foggy = fog(x, 2, _generator())
    assert torch.allclose(foggy[0] - foggy[1], torch.tensor(0.6 / 3), atol=1e-5)


def test_fog_over_a_black_image_is_black_as_published():
    assert (fog(_grey(0.0), 5, _generator()) == 0).all()


@pytest.mark.parametrize(("severity", "keep", "share"), [(1, 1.0, 0.4), (5, 0.6, 0.75)])
def test_frost_adds_bluish_ice_to_a_darker_image(severity, keep, share):
    ice = frost(_grey(0.0), severity, _generator())
    assert torch.allclose(ice[0], 0.86 * ice[2], atol=1e-6)
    assert torch.allclose(ice[1], 0.94 * ice[2], atol=1e-6)
    assert ice.max() <= share
    x = torch.rand(3, 60, 60)
    assert torch.allclose(frost(x, severity, _generator()), keep * x + ice, atol=1e-6)


@pytest.mark.parametrize(("severity", "keep"), [(1, 0.8), (5, 0.55)])
def test_snow_is_never_darker_than_the_paler_image(severity, keep):
    x = torch.rand(3, 60, 60)
    luma = 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
    pale = keep * x + (1 - keep) * torch.maximum(x, 1.5 * luma + 0.5)
    flakes = snow(x, severity, _generator()) - pale
    assert flakes.min() > -1e-5
    assert flakes.max() > 0.1
    assert torch.allclose(flakes[0], flakes[2], atol=1e-5)
    assert torch.allclose(flakes, flakes.flip(1, 2), atol=1e-5)


def test_flakes_fall_more_than_they_drift():
    fallen = drifted = 0
    for seed in range(6):
        flakes = snow(torch.zeros(3, 224, 224), 2, _generator(seed))[0]
        fallen += flakes.diff(dim=0).abs().mean()
        drifted += flakes.diff(dim=1).abs().mean()
    assert fallen < drifted


@pytest.mark.parametrize("weather", [snow, frost, fog])
def test_the_same_weather_is_seen_at_any_size(weather):
    large, small = torch.full((3, 224, 224), 0.5), torch.full((3, 56, 56), 0.5)
    averaged = torch.nn.functional.avg_pool2d(weather(large, 3, _generator()), 4)
    seen = weather(small, 3, _generator())
    assert (averaged - seen).abs().mean() < 0.25 * (seen - seen.mean()).abs().mean()
