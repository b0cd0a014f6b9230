import pytest
import torch

from semppl.corruptions.texture import canvas, fit, hills, ice, plasma


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((224, 224), (224, 224)),
        ((32, 32), (224, 224)),
        ((1, 1), (224, 224)),
        ((1000, 2000), (224, 448)),
        ((48, 32), (336, 224)),
        ((1, 3000), (224, 1344)),
        ((3000, 1), (1344, 224)),
    ],
)
def test_the_shorter_side_of_a_canvas_is_224(shape, expected):
    assert canvas(*shape) == expected


def test_a_texture_that_fits_stays_and_another_keeps_its_mean():
    texture = torch.rand(1, 224, 224)
    assert torch.allclose(fit(texture, torch.zeros(3, 224, 224)), texture, atol=1e-6)
    for shape in ((32, 32), (1, 1), (448, 448)):
        fitted = fit(texture, torch.zeros(3, *shape))
        assert fitted.shape == (1, *shape)
        assert fitted.mean() == pytest.approx(texture.mean().item(), abs=0.01)


def test_hills_pass_through_their_random_heights():
    heights = 2 * torch.rand(1, 2, 5, 9, generator=_generator()) - 1
    smooth = hills(21, 42, 4, _generator(), channels=2)
    assert smooth.shape == (2, 21, 42)
    assert torch.allclose(smooth[:, ::5, 0], heights[0, :, :, 0], atol=1e-5)
    assert torch.allclose(smooth[:, ::5, -1], heights[0, :, :, -1], atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (3, 300)])
def test_hills_are_never_finer_than_pixels(shape):
    assert hills(*shape, 38, _generator()).shape == (1, *shape)


def test_clouds_fill_the_range_and_are_rougher_where_octaves_decay_less():
    smooth, rough = (plasma(100, 150, decay, _generator()) for decay in (2.0, 1.2))
    for clouds in (smooth, rough):
        assert clouds.shape == (1, 100, 150)
        assert clouds.min() == 0
        assert clouds.max() == 1
    assert rough.diff(dim=2).abs().mean() > 2 * smooth.diff(dim=2).abs().mean()


def test_each_octave_of_clouds_is_lower_by_the_square_of_the_decay():
    generator = _generator()
    octaves = [hills(64, 64, 2 ** (i + 1), generator) for i in range(7)]
    expected = sum(1.5 ** (-2 * i) * octave for i, octave in enumerate(octaves))
    expected = (expected - expected.min()) / (expected.max() - expected.min())
    assert torch.allclose(plasma(64, 64, 1.5, _generator()), expected, atol=1e-6)


def test_ice_covers_some_of_every_pane_and_not_all():
    for seed in range(10):
        pane = ice(224, 224, _generator(seed))
        assert pane.shape == (1, 224, 224)
        assert pane.min() >= 0
        assert pane.max() <= 1
        assert 0.25 < pane.mean() < 0.75
        assert 0.02 < (pane > 0.8).float().mean() < 0.5
        assert (pane < 0.3).float().mean() > 0.02


def test_ice_has_fine_edges_that_clouds_have_not():
    pane, clouds = ice(224, 224, _generator()), plasma(224, 224, 1.4, _generator())
    assert pane.diff(dim=2).abs().mean() > 5 * clouds.diff(dim=2).abs().mean()
