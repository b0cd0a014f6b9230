import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, label

from semppl.saliency.superpixels import WANTED, Superpixels, paint, stretched, superpixels


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def photo(height=192, width=256, seed=0):
    """Soft patches of colour with some edges and a little noise, as in a photograph."""
    rng = np.random.default_rng(seed)
    soft = gaussian_filter(rng.normal(size=(height, width, 3)), (18, 18, 0))
    hard = gaussian_filter(rng.normal(size=(height, width)), 14) > 0
    image = 128 + 45 * soft / soft.std() + 40 * hard[:, :, None] + rng.normal(0, 5, soft.shape)
    return image.clip(0, 255).astype(np.uint8)


def assert_whole(regions, shape):
    """What holds for regions of any image."""
    labels = regions.labels_HW
    assert labels.shape == shape
    assert np.unique(labels).tolist() == list(range(len(regions)))
    assert all(label(labels == number)[1] == 1 for number in range(len(regions)))
    assert regions.area_N.sum() == pytest.approx(1)
    assert regions.border_N4.any(0).all()
    for values in (regions.lab_N3, regions.rgb_N3, regions.place_N2):
        assert len(values) == len(regions)
        assert np.isfinite(values).all()


IMAGES = {
    "photo": photo(48, 64),
    "narrow": noise(3, 31),
    "high and narrow": noise(40, 2),
    "noise": noise(30, 30),
    "small": noise(9, 7),
}


@pytest.mark.parametrize("name", IMAGES)
def test_regions_are_described_by_the_means_of_their_pixels(name):
    image = IMAGES[name]
    height, width = image.shape[:2]
    regions = superpixels(image)
    assert_whole(regions, (height, width))
    for number in range(len(regions)):
        rows, columns = np.nonzero(regions.labels_HW == number)
        assert np.allclose(regions.rgb_N3[number], image[rows, columns].mean(0) / 255)
        assert np.allclose(
            regions.place_N2[number], [(rows.mean() + 0.5) / height, (columns.mean() + 0.5) / width]
        )
        assert regions.area_N[number] == pytest.approx(len(rows) / (height * width))
        sides = (0 in rows, height - 1 in rows, 0 in columns, width - 1 in columns)
        assert tuple(regions.border_N4[number].tolist()) == sides


@pytest.mark.parametrize("name", IMAGES)
def test_neighbours_are_all_pairs_of_regions_with_pixels_side_by_side(name):
    labels = (regions := superpixels(IMAGES[name])).labels_HW
    rows, columns = (place.ravel() for place in np.indices(labels.shape))
    beside = abs(rows[:, None] - rows) + abs(columns[:, None] - columns) == 1
    first, second = (labels.ravel()[index].tolist() for index in np.nonzero(beside))
    pairs = {(i, j) for i, j in zip(first, second, strict=True) if i < j}
    assert sorted(pairs) == [tuple(pair) for pair in regions.pairs_E2.tolist()]


@pytest.mark.parametrize(
    ("colour", "lab"),
    [
        ((255, 255, 255), (100, 0, 0)),
        ((0, 0, 0), (0, 0, 0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
        ((119, 119, 119), (50.03, 0, 0)),
    ],
)
def test_colours_are_cielab_under_daylight(colour, lab):
    regions = superpixels(np.tile(np.uint8(colour), (20, 30, 1)))
    assert np.allclose(regions.lab_N3, lab, atol=0.2)
    assert np.allclose(regions.rgb_N3, np.divide(colour, 255))


def test_the_mean_colour_is_that_of_cielab_not_of_the_mean_of_light():
    # a strip of one white pixel and one black one: L = 50, which no grey of half the light has
    image = np.zeros((2, WANTED, 3), np.uint8)
    image[0] = 255
    regions = superpixels(image)
    assert len(regions) == WANTED
    assert np.allclose(regions.lab_N3, [50, 0, 0], atol=0.01)
    assert np.allclose(regions.rgb_N3, 0.5)


@pytest.mark.parametrize("wanted", [100, WANTED, 400])
def test_a_photo_has_about_as_many_as_wanted(wanted):
    regions = superpixels(photo(), wanted)
    assert_whole(regions, (192, 256))
    assert 0.75 * wanted < len(regions) < 1.25 * wanted
    assert 0.2 / wanted < regions.area_N.min()
    assert regions.area_N.max() < 6 / wanted


def test_regions_keep_to_edges():
    image = np.full((96, 128, 3), 40, np.uint8)
    image[:, 51:] = [60, 200, 90]
    image[37:] += 50
    regions = superpixels(image)
    for number in range(len(regions)):
        assert len(np.unique(image[regions.labels_HW == number], axis=0)) == 1


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        ((104, 127, 107), (105, 113, 122), True),
        ((234, 18, 115), (233, 0, 111), False),
        ((38, 15, 177), (22, 19, 178), False),
        ((177, 15, 38), (178, 19, 22), True),
    ],
)
def test_edges_are_those_that_an_eye_sees(one, other, kept):
    # all differ by 16 to 21 levels; in CIELab, of 255 levels, the two that are not kept differ by 2
    image = np.tile(np.uint8(one), (96, 128, 1))
    patch = np.zeros((96, 128), bool)
    patch[37:61, 20:83] = True
    image[patch] = other
    regions = superpixels(image)
    both = set(regions.labels_HW[patch].tolist()) & set(regions.labels_HW[~patch].tolist())
    assert (not both) == kept


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 1), 1),
        ((1, 2), 2),
        ((2, 2), 4),
        ((1, 200), 200),
        ((200, 1), 200),
        ((1, 1000), 250),
        ((3, 300), 225),
        ((3, 301), 226),
        ((301, 3), 226),
        ((23, 23), 177),
        ((4, 5000), 250),
    ],
)
def test_images_too_narrow_or_too_small_for_slic_are_cut_into_strips(shape, count):
    regions = superpixels(noise(*shape))
    assert_whole(regions, shape)
    assert len(regions) == count


def test_a_strip_goes_on_where_the_row_before_it_ended():
    # 2 × 6 pixels in strips of 3, back and forth across the shorter side
    regions = superpixels(noise(2, 6), wanted=4)
    assert regions.labels_HW.tolist() == [[0, 1, 1, 2, 2, 3], [0, 0, 1, 2, 3, 3]]
    assert superpixels(noise(6, 2), wanted=4).labels_HW.tolist() == regions.labels_HW.T.tolist()


@pytest.mark.parametrize("shape", [(4, 4), (4, 1000), (5, 300), (25, 25), (26, 24)])
def test_the_smallest_images_for_slic(shape):
    assert_whole(superpixels(noise(*shape)), shape)
    assert_whole(superpixels(np.full((*shape, 3), 77, np.uint8)), shape)


def test_one_colour_is_a_grid():
    regions = superpixels(np.full((160, 160, 3), 200, np.uint8))
    assert_whole(regions, (160, 160))
    assert len(regions) == 256
    assert np.ptp(regions.lab_N3, axis=0).max() < 1e-9


def test_a_grey_image_has_no_chroma():
    image = np.repeat(photo(64, 96)[:, :, :1], 3, 2)
    regions = superpixels(image)
    assert_whole(regions, (64, 96))
    assert np.abs(regions.lab_N3[:, 1:]).max() < 0.2
    assert np.ptp(regions.lab_N3[:, 0]) > 20


def test_painting_gives_each_pixel_the_value_of_its_region():
    labels = np.array([[0, 0, 2], [1, 2, 2]], np.int32)
    none = np.zeros((3, 3))
    regions = Superpixels(
        labels_HW=labels,
        lab_N3=none,
        rgb_N3=none,
        place_N2=none[:, :2],
        area_N=np.array([2, 1, 3]) / 6,
        border_N4=np.ones((3, 4), bool),
        pairs_E2=np.array([[0, 1], [0, 2], [1, 2]]),
    )
    painted = paint(np.array([0.25, 0.5, 1.0]), regions)
    assert painted.dtype == np.float32
    assert painted.tolist() == [[0.25, 0.25, 1], [0.5, 1, 1]]
    assert len(regions) == 3


def test_stretching():
    assert stretched(np.array([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert stretched(np.array([-1.0, 0.0])).tolist() == [0, 1]
    values = np.random.default_rng(0).normal(size=50)
    assert (stretched(values).argsort() == values.argsort()).all()
    assert np.allclose(stretched(7 * values - 3), stretched(values))


def test_what_is_all_the_same_stretches_to_nothing():
    assert stretched(np.full(4, 0.7)).tolist() == [0] * 4
    assert stretched(0.7 + np.array([0, 1e-12])).tolist() == [0, 0]
    assert stretched(np.array([3.0])).tolist() == [0]
