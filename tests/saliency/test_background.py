from dataclasses import replace

import numpy as np
import pytest
from tests.saliency.grids import disc, grid, is_a_map, links_of, overlap, random_grid

from semppl.saliency.background import background, background_weight, optimised, weighted_contrast
from semppl.saliency.graph import colour_distance, touching
from semppl.saliency.superpixels import paint, superpixels


def weight_of(regions):
    return background_weight(regions, colour_distance(regions))


def from_connectivity(connectivity):
    return 1 - np.exp(-np.square(connectivity) / 2)


def common_step(regions):
    """The mean over regions of the distance from the nearest neighbour in colour."""
    distance, near = colour_distance(regions), touching(regions)
    return np.mean([min(distance[i, near[i]]) for i in range(len(regions))])


def shortest_ways(regions):
    """Floyd and Warshall's way of all shortest ways."""
    distance, border = colour_distance(regions), regions.border_N4.any(1)
    way = touching(regions) | (border[:, None] & border)
    shortest = np.where(way, np.maximum(distance - common_step(regions), 0), np.inf)
    np.fill_diagonal(shortest, 0)
    for k in range(len(regions)):
        shortest = np.minimum(shortest, shortest[:, k : k + 1] + shortest[k])
    return shortest


@pytest.mark.parametrize("seed", range(3))
def test_connectivity_by_all_shortest_ways(seed):
    regions = random_grid(6, 6, seed)
    regions = replace(regions, lab_N3=0.5 * regions.lab_N3)
    span = np.exp(-(shortest_ways(regions) ** 2) / (2 * 10**2))
    connectivity = span[:, regions.border_N4.any(1)].sum(1) / np.sqrt(span.sum(1))
    assert np.allclose(weight_of(regions), from_connectivity(connectivity), atol=1e-6)


def test_connectivity_of_two_groups_far_apart():
    # the ring's 16 regions all lie on the border, of the inner 9 none
    colour = np.zeros((5, 5))
    colour[1:4, 1:4] = 100
    weight = weight_of(grid(colour)).reshape(5, 5)
    assert np.allclose(weight[colour == 0], from_connectivity(16 / 4))
    assert np.allclose(weight[colour > 0], 0, atol=1e-12)


def test_connectivity_of_a_group_that_the_border_cuts():
    # 6 regions, 3 of them on the border, before 19 with 13
    colour = np.zeros((5, 5))
    colour[:2, 1:4] = 100
    weight = weight_of(grid(colour)).reshape(5, 5)
    assert np.allclose(weight[colour > 0], from_connectivity(3 / 6**0.5))
    assert np.allclose(weight[colour == 0], from_connectivity(13 / 19**0.5))


def test_background_on_both_sides_of_an_object_is_one():
    # joined along the border: 6 regions of 6, not 3 of 3
    weight = weight_of(grid([[0, 90, 0]] * 3)).reshape(3, 3)
    assert np.allclose(weight[:, [0, 2]], from_connectivity(6 / 6**0.5))


def test_a_step_counts_by_its_gaussian():
    # two pairs of regions 20 apart: each spans its own pair and e⁻² of the other
    area = 2 + 2 * np.exp(-2)
    assert np.allclose(weight_of(grid([[0, 20], [0, 20]])), from_connectivity(area / area**0.5))


def test_a_slope_is_no_way():
    # every step is the common one of 6: all are spanned by all, 12 of 16 on the border
    rows, columns = np.mgrid[:4, :4]
    assert np.allclose(weight_of(grid(6 * (rows + columns))), from_connectivity(12 / 4))


def test_a_step_above_the_common_one_counts_by_what_is_above():
    # nearest neighbours: 4 above and 0 below, that is 2 in the mean; the way from 4 to 100 is far
    colours = [[0, 4, 0, 4], [100, 100, 100, 100]]
    regions = grid(colours)
    assert common_step(regions) == pytest.approx(4 * 4 / 8)
    near = np.exp(-((4 - 2) ** 2) / 200)
    area = 2 + 2 * near
    assert np.allclose(weight_of(regions)[:4], from_connectivity(area / area**0.5), atol=1e-6)
    assert np.allclose(weight_of(regions)[4:], from_connectivity(2), atol=1e-6)


def test_contrast_by_hand():
    regions = grid([[0, 10, 40]], area_N=[0.5, 0.3, 0.2])
    from_border = np.array([1.0, 0.5, 0.25])
    # places are a third of the width apart, σ is a quarter
    one, two = np.exp(-8 / 9), np.exp(-32 / 9)
    mass = from_border * regions.area_N
    raw = [
        10 * one * mass[1] + 40 * two * mass[2],
        10 * one * mass[0] + 30 * one * mass[2],
        40 * two * mass[0] + 30 * one * mass[1],
    ]
    wanted = (np.array(raw) - min(raw)) / (max(raw) - min(raw))
    assert np.allclose(weighted_contrast(regions, colour_distance(regions), from_border), wanted)


def test_contrast_counts_pixels_not_regions():
    whole = grid([[0, 10, 40]], area_N=[0.5, 0.25, 0.25])
    halves = replace(
        grid([[0, 0, 10, 40]]),
        place_N2=whole.place_N2[[0, 0, 1, 2]],
        area_N=np.array([0.25, 0.25, 0.25, 0.25]),
    )
    found = weighted_contrast(halves, colour_distance(halves), np.array([1, 1, 0.5, 0]))
    assert np.allclose(found[1:], weighted_contrast(whole, colour_distance(whole), np.array([1, 0.5, 0])))


def best_parted(values):
    """Which are above Otsu's threshold: the variance between the two is largest."""
    levels = np.rint(255 * values)

    def between(level):
        above = levels > level
        return above.mean() * (~above).mean() * (levels[above].mean() - levels[~above].mean()) ** 2

    return levels > max(np.unique(levels)[:-1], key=between)


def squares(regions, from_border, contrast):
    """The rows and wanted values of eq. 9, one for each term."""
    count, distance, links = len(regions), colour_distance(regions), links_of(regions)
    foreground = np.where(best_parted(contrast), contrast, 0)
    rows, wanted = [], []
    for i in range(count):
        rows += [np.sqrt(from_border[i]) * np.eye(count)[i], np.sqrt(foreground[i]) * np.eye(count)[i]]
        wanted += [0, np.sqrt(foreground[i])]
        for j in range(i):
            if links[i, j]:
                above = max(distance[i, j] - common_step(regions), 0)
                smooth = np.exp(-(above**2) / (2 * 10**2)) + 0.1
                rows.append(np.sqrt(smooth) * (np.eye(count)[i] - np.eye(count)[j]))
                wanted.append(0)
    return np.array(rows), np.array(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_the_least_squares(seed):
    rng = np.random.default_rng(seed)
    regions = random_grid(5, 5, seed)
    from_border, contrast = rng.random((2, 25))
    contrast = (contrast - contrast.min()) / np.ptp(contrast)
    found = optimised(regions, colour_distance(regions), from_border, contrast)
    rows, wanted = squares(regions, from_border, contrast)
    assert np.allclose(found, np.linalg.lstsq(rows, wanted)[0], atol=1e-5)
    assert np.abs(rows.T @ (rows @ found - wanted)).max() < 1e-5
    assert 0 <= found.min() <= found.max() <= 1


def test_contrast_up_to_the_threshold_is_no_foreground():
    # the threshold lies above 0.3, of which one value rounds up and one down: only the last wants to be 1
    regions = grid([[0, 0, 0, 0, 100]])
    contrast = np.array([0, 0.2996, 0.3004, 0.1, 1.0])
    found = optimised(regions, colour_distance(regions), np.zeros(5), contrast)
    # nothing is background, so that all become what the foreground wants
    assert np.allclose(found, 1, atol=1e-4)
    held = optimised(regions, colour_distance(regions), np.array([0, 1e6, 1e6, 0, 0]), contrast)
    # 1 and 2 are held at 0; the others are drawn to them with 2.2, and 0.1 each to the last
    assert held[1:3] == pytest.approx([0, 0], abs=1e-5)
    last = held[4]
    first = (1.1 * held[3] + 0.1 * last) / (2.2 + 1.1 + 0.1)
    assert held[0] == pytest.approx(first, abs=1e-5)
    assert 0.1 * (last - held[0]) + 0.1 * (last - held[3]) + 0.2 * last + last - 1 == pytest.approx(
        0, abs=1e-4
    )


def test_no_contrast_is_no_saliency():
    regions = random_grid(4, 4)
    for from_border in (0.0, 1.0):
        found = optimised(regions, colour_distance(regions), np.full(16, from_border), np.zeros(16))
        assert (found == 0).all()


@pytest.mark.parametrize("centre", [(48, 64), (34, 90), (60, 34)])
def test_a_disc_is_found_wherever_it_lies(centre):
    image, truth = disc(centre)
    regions = superpixels(image)
    assert overlap(paint(background(regions), regions) >= 0.5, truth) > 0.85


def test_a_disc_that_the_border_cuts_is_less_salient_and_one_cut_in_half_least():
    inside = []
    for column in (64, 10, 0):
        image, truth = disc((48, column), radius=26)
        regions = superpixels(image)
        distance = colour_distance(regions)
        weight = background_weight(regions, distance)
        contrast = weighted_contrast(regions, distance, weight)
        saliency = optimised(regions, distance, weight, contrast)
        inside.append([paint(values, regions)[truth].mean() for values in (weight, saliency)])
    (whole, cut, half) = inside
    assert whole[0] + 0.1 < cut[0] < half[0]
    assert whole[1] > cut[1] + 0.05 > half[1] + 0.05


def test_a_disc_that_touches_the_border_is_still_found():
    # the point of the paper: some of the border's regions belong to the object
    image, truth = disc((48, 20), radius=26)
    regions = superpixels(image)
    assert (regions.border_N4[:, 2] & (regions.lab_N3[:, 2] > 30)).any()
    assert overlap(paint(background(regions), regions) >= 0.5, truth) > 0.85


def test_a_mirror_image_has_the_mirrored_saliency():
    colours = 100 * np.random.default_rng(3).random((5, 6))
    there = background(grid(colours)).reshape(5, 6)
    assert np.allclose(background(grid(colours[:, ::-1])).reshape(5, 6), there[:, ::-1])
    assert np.allclose(background(grid(colours[::-1])).reshape(5, 6), there[::-1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 30), (4, 5)])
def test_one_colour_has_no_saliency(shape):
    assert (background(grid(np.full(shape, 55.0))) == 0).all()


def test_two_regions_and_one_row():
    assert is_a_map(background(grid([[0, 100]])))
    assert is_a_map(background(random_grid(1, 20)))
