import warnings

import numpy as np
import pytest
from tests.saliency.grids import disc, is_a_map, overlap

from semppl.saliency.absorption import absorption
from semppl.saliency.background import background
from semppl.saliency.ranking import ranking
from semppl.saliency.reconstruction import reconstruction
from semppl.saliency.sources import SOURCES, fused, source_maps
from semppl.saliency.superpixels import paint, superpixels


def noise(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_the_sources_by_name_in_order():
    assert list(SOURCES) == ["background", "ranking", "absorption", "reconstruction"]
    assert list(SOURCES.values()) == [background, ranking, absorption, reconstruction]


def test_maps_are_those_of_the_sources_on_the_same_regions():
    image, _ = disc()
    maps = source_maps(image)
    regions = superpixels(image)
    assert maps.dtype == np.float32
    assert maps.shape == (4, 96, 128)
    for found, source in zip(maps, SOURCES.values(), strict=True):
        assert (found == paint(source(regions), regions)).all()
        assert found.min() == 0
        assert found.max() == 1


def test_the_fused_map_is_the_mean():
    maps = np.array([[[0.0, 1.0]], [[0.5, 1.0]], [[0.25, 0.0]], [[0.25, 0.0]]], np.float32)
    assert fused(maps).tolist() == [[0.25, 0.5]]
    assert fused(maps).dtype == np.float32


DEGENERATE = {
    "black": np.zeros((60, 80, 3), np.uint8),
    "white": np.full((60, 80, 3), 255, np.uint8),
    "noise": noise(60, 80),
    "one pixel": noise(1, 1),
    "one row": noise(1, 50),
    "one column": noise(50, 1),
    "four pixels": noise(2, 2),
    "four black pixels": np.zeros((2, 2, 3), np.uint8),
    "wide": noise(5, 300),
    "high": noise(300, 5),
    "wide and black": np.zeros((5, 300, 3), np.uint8),
    "one row of one colour": np.full((1, 256, 3), 90, np.uint8),
    "grey": np.repeat(disc()[0][:, :, :1], 3, 2),
    "two halves": np.repeat(np.repeat(np.uint8([[0, 255]]), 40, 1), 60, 0)[:, :, None].repeat(3, 2),
    "one bright pixel": np.eye(60, 80, 20, dtype=np.uint8)[:, :, None].repeat(3, 2) * 255,
    "one level apart": noise(60, 80) % 2,
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_any_image_has_maps_from_0_to_1_without_a_warning(name):
    image = DEGENERATE[name]
    with warnings.catch_warnings(), np.errstate(divide="raise", over="raise", invalid="raise"):
        warnings.simplefilter("error")
        maps = source_maps(image)
    assert maps.shape == (4, *image.shape[:2])
    assert is_a_map(maps)
    assert is_a_map(fused(maps))


@pytest.mark.parametrize("name", ["black", "white", "one pixel", "four black pixels", "wide and black"])
def test_background_and_reconstruction_find_nothing_in_one_colour(name):
    maps = dict(zip(SOURCES, source_maps(DEGENERATE[name]), strict=True))
    assert not maps["background"].any()
    assert not maps["reconstruction"].any()


def test_the_grey_disc_is_found():
    maps, truth = source_maps(DEGENERATE["grey"]), disc()[1]
    assert overlap(fused(maps) >= 0.5, truth) > 0.85


def test_the_same_image_has_the_same_maps():
    image, _ = disc()
    assert (source_maps(image) == source_maps(image.copy())).all()
    assert (source_maps(np.asfortranarray(image)) == source_maps(image)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_the_mirrored_image_has_nearly_the_mirrored_maps(axis):
    # superpixels start from a grid that has no mirror
    image, _ = disc((34, 90))
    maps = source_maps(image)
    mirrored = np.flip(source_maps(np.ascontiguousarray(np.flip(image, axis))), axis + 1)
    assert np.abs(mirrored - maps).mean((1, 2)).max() < 0.06
    for one, other in zip(maps, mirrored, strict=True):
        assert overlap(one >= 0.5, other >= 0.5) > 0.85


def test_nothing_stands_out_of_noise_that_no_eye_can_see():
    faint = (128 + np.random.default_rng(0).integers(-1, 2, (96, 128, 1))).astype(np.uint8).repeat(3, 2)
    assert (source_maps(faint) == 0).all()
    faint[30:60, 40:90] += 12
    assert source_maps(faint).max((1, 2)).min() == 1
