import cv2
import numpy as np
import pytest

from semppl.saliency.cut import cut, cut_part


def disc(side=64, radius=20):
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    return rows**2 + columns**2 < radius**2


def two_colours(inside_HW, noise=12, seed=0):
    """Red on green, with the noise of a camera."""
    image = np.where(inside_HW[:, :, None], (200, 60, 40), (40, 120, 60))
    return (image + np.random.default_rng(seed).normal(0, noise, image.shape)).clip(0, 255).astype(np.uint8)


def unsure(inside_HW, noise=0.15, seed=1):
    """A map that is right by a little, on average."""
    told = np.where(inside_HW, 0.6, 0.4) + np.random.default_rng(seed).normal(0, noise, inside_HW.shape)
    return told.clip(0, 1).astype(np.float32)


def overlap(map_HW, truth_HW):
    found = map_HW >= 0.5
    return (found & truth_HW).sum() / (found | truth_HW).sum()


def random_pair(seed, height=24, width=24):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, 256, (height, width, 3), dtype=np.uint8),
        rng.uniform(0.2, 0.79, (height, width)).astype(np.float32),
    )


def test_a_noisy_map_becomes_the_disc_that_it_is_about():
    truth = disc()
    image, told = two_colours(truth), unsure(truth)
    assert overlap(told, truth) < 0.6
    assert overlap(cut(image, told), truth) > 0.95


def test_a_blurred_map_ends_where_the_colours_do():
    truth = disc()
    told = np.sqrt(cv2.GaussianBlur(truth.astype(np.float32), (0, 0), 6))
    assert overlap(told, truth) < 0.8
    assert overlap(cut(two_colours(truth), told), truth) > 0.97


def test_where_the_map_is_sure_colours_have_no_say():
    truth = disc()
    told = unsure(truth, noise=0)
    told[30:34, 30:34], told[2:6, 2:6] = 0.1, 0.9
    result = cut(two_colours(truth), told)
    assert not result[30:34, 30:34].any()
    assert result[2:6, 2:6].all()
    assert overlap(result, truth) > 0.95


@pytest.mark.parametrize(("level", "wanted"), [(0.0, 0), (0.49, 0), (0.5, 1), (1.0, 1)])
def test_a_map_on_one_side_of_a_half_stays_there(level, wanted):
    truth = disc()
    result = cut(two_colours(truth), np.full(truth.shape, level, np.float32))
    assert result.dtype == np.float32
    assert (result == wanted).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (1, 40), (40, 1)])
@pytest.mark.parametrize("levels", [(0.0, 1.0), (0.4, 0.6)])
@pytest.mark.parametrize("flat", [False, True])
def test_narrow_and_tiny_images_are_cut_too(shape, levels, flat):
    image, told = random_pair(0, *shape)
    if flat:
        image[:] = 7
    told[:] = levels[0]
    told.flat[0] = levels[1]
    result = cut(image, told)
    assert result.shape == shape
    assert np.isin(result, (0, 1)).all()
    if levels == (0.0, 1.0):  # nothing is left to decide
        assert result.tolist() == told.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_no_earlier_draw_changes_the_result(seed):
    image, told = random_pair(seed)
    before = told.copy(), image.copy()
    results = []
    for elsewhere in range(6):
        cv2.setRNGSeed(elsewhere)
        results.append(cut(image, told))
    assert np.isin(results[0], (0, 1)).all()
    assert all((result == results[0]).all() for result in results)
    assert (told == before[0]).all()
    assert (image == before[1]).all()


def test_a_part_is_its_maps_one_by_one():
    pairs = [[random_pair(10 * i + j) for j in range(2)] for i in range(3)]
    images = np.stack([row[0][0] for row in pairs])
    maps = np.stack([[(255 * told).astype(np.uint8) for _, told in row] for row in pairs])
    maps[1, 1] = 128  # just above a half
    result = cut_part((images, maps))
    assert (result.dtype, result.shape) == (np.uint8, maps.shape)
    for i in range(3):
        for j in range(2):
            assert (result[i, j] == 255 * cut(images[i], maps[i, j].astype(np.float32) / 255)).all()
    assert (result[1, 1] == 255).all()
    channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    assert (cut_part((channels_first.transpose(0, 2, 3, 1), maps)) == result).all()
