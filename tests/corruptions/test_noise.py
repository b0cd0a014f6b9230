import pytest
import torch

from semppl.corruptions.noise import gaussian_noise, impulse_noise, shot_noise


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _grey(value, side=200):
    return torch.full((3, side, side), value)


@pytest.mark.parametrize(("severity", "sigma"), [(1, 0.08), (2, 0.12), (3, 0.18), (4, 0.26), (5, 0.38)])
def test_gaussian_noise_has_the_published_deviation_at_any_light(severity, sigma):
    for light in (0.1, 0.5):
        noise = gaussian_noise(_grey(light), severity, _generator()) - light
        assert noise.mean() == pytest.approx(0, abs=0.01)
        assert noise.std() == pytest.approx(sigma, rel=0.01)


@pytest.mark.parametrize(("severity", "photons"), [(1, 60), (2, 25), (3, 12), (4, 5), (5, 3)])
def test_shot_noise_counts_photons(severity, photons):
    counted = shot_noise(_grey(0.5), severity, _generator()) * photons
    assert torch.allclose(counted, counted.round(), atol=1e-4)
    # mean and variance of a Poisson distribution are equal
    assert counted.mean() == pytest.approx(photons / 2, rel=0.02)
    assert counted.var() == pytest.approx(photons / 2, rel=0.02)
    assert (shot_noise(_grey(0.0), severity, _generator()) == 0).all()


@pytest.mark.parametrize(("severity", "share"), [(1, 0.03), (2, 0.06), (3, 0.09), (4, 0.17), (5, 0.27)])
def test_impulse_noise_loses_a_share_half_to_black_half_to_white(severity, share):
    x = impulse_noise(_grey(0.3), severity, _generator())
    assert (x == 0).float().mean() == pytest.approx(share / 2, rel=0.05)
    assert (x == 1).float().mean() == pytest.approx(share / 2, rel=0.05)
    assert ((x == 0) | (x == 1) | (x == 0.3)).all()


@pytest.mark.parametrize("noise", [gaussian_noise, shot_noise, impulse_noise])
def test_channels_have_noise_of_their_own(noise):
    red, green, _ = noise(_grey(0.5), 3, _generator()).flatten(1) - 0.5
    assert abs((red * green).mean() / (red.std() * green.std())) < 0.02
