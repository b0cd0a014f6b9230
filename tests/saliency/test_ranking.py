import numpy as np
import pytest
from tests.saliency.grids import disc, grid, is_a_map, links_of, overlap, random_grid

from semppl.saliency.ranking import ranking, relation
from semppl.saliency.superpixels import paint, superpixels

ALPHA = 0.99


def graph_of(regions):
    """D and W of the paper, pair by pair."""
    colour = regions.lab_N3[:, 0]
    distance = abs(colour[:, None] - colour)
    weights = np.where(links_of(regions), np.exp(-10 * distance / distance.max()), 0)
    return np.diag(weights.sum(1)), weights


def scaled(values):
    return (values - values.min()) / (values.max() - values.min())


def ranked(regions, query):
    """The answers to each query alone, less what it gives itself."""
    degrees, weights = graph_of(regions)
    votes = []
    for i in np.flatnonzero(query):
        only = np.eye(len(regions))[i]
        answer = np.linalg.solve(degrees - ALPHA * weights, only)
        votes.append(answer * (1 - only))
    return np.sum(votes, 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_relation_is_the_inverse_without_its_diagonal(seed):
    regions = random_grid(5, 6, seed)
    degrees, weights = graph_of(regions)
    found = relation(regions)
    assert (np.diag(found) == 0).all()
    inverse = found + np.diag(np.diag(np.linalg.inv(degrees - ALPHA * weights)))
    # a thousand-millionth is added to the degrees, which matters where all weights are small
    assert np.allclose((degrees - ALPHA * weights) @ inverse, np.eye(30), atol=1e-4)
    assert np.allclose(found, found.T)
    assert (found + np.eye(30) > 0).all()


def test_the_relation_of_three_alike_regions_by_hand():
    # D = 2 and W = 1: off its diagonal (D − αW)⁻¹ is α / ((2 + α)(2 − 2α))
    wanted = ALPHA / ((2 + ALPHA) * (2 - 2 * ALPHA))
    found = relation(grid([[7, 7, 7]]))
    assert np.allclose(found, wanted * (1 - np.eye(3)))


def test_the_relation_of_three_regions_by_cofactors():
    # colours 0, 60, 100: distances 0.6, 1 and 0.4 of the largest
    a, b, c = np.exp(-6), np.exp(-10), np.exp(-4)
    first, second, third = a + b, a + c, b + c
    x, y, z = ALPHA * a, ALPHA * b, ALPHA * c
    determinant = first * second * third - 2 * x * y * z - first * z**2 - second * y**2 - third * x**2
    found = relation(grid([[0, 60, 100]]))
    assert found[0, 1] == pytest.approx((x * third + y * z) / determinant, rel=1e-4)
    assert found[0, 2] == pytest.approx((x * z + y * second) / determinant, rel=1e-4)
    assert found[1, 2] == pytest.approx((first * z + x * y) / determinant, rel=1e-4)


def test_three_regions_by_hand():
    # of 0, 60, 100 in one row all lie above and below; the left side asks with 0, the right with 100
    regions = grid([[0, 60, 100]])
    r = relation(regions)
    all_three = 1 - scaled(r.sum(1))
    left, right = 1 - scaled(r[:, 0]), 1 - scaled(r[:, 2])
    assert all_three.argmin() == 1
    assert left[0] == right[2] == 1
    first = scaled(all_three**2 * left * right)
    seeds = first > first.mean()
    assert np.allclose(ranking(regions), scaled(r[:, seeds].sum(1)))


@pytest.mark.parametrize("seed", range(4))
def test_both_stages_query_by_query(seed):
    regions = random_grid(6, 7, seed)
    first = np.ones(42)
    for side in range(4):
        first *= 1 - scaled(ranked(regions, regions.border_N4[:, side]))
    first = scaled(first)
    wanted = scaled(ranked(regions, first > sum(first) / 42))
    assert np.allclose(ranking(regions), wanted, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_image_has_the_mirrored_ranks(seed):
    colours = 100 * np.random.default_rng(seed).random((6, 7))
    there = ranking(grid(colours)).reshape(6, 7)
    assert np.allclose(ranking(grid(colours[:, ::-1])).reshape(6, 7), there[:, ::-1])
    assert np.allclose(ranking(grid(colours[::-1])).reshape(6, 7), there[::-1])
    assert np.allclose(ranking(grid(colours.T)).reshape(7, 6), there.T)


def test_the_negative_has_the_same_ranks():
    colours = 100 * np.random.default_rng(0).random((6, 7))
    assert np.allclose(ranking(grid(100 - colours)), ranking(grid(colours)))


@pytest.mark.parametrize("centre", [(48, 64), (34, 90), (60, 34)])
def test_a_disc_is_found_wherever_it_lies(centre):
    image, truth = disc(centre)
    regions = superpixels(image)
    assert overlap(paint(ranking(regions), regions) >= 0.5, truth) > 0.85


def test_an_object_at_one_side_is_found_by_the_three_others():
    image, truth = disc((60, 110), radius=26)
    regions = superpixels(image)
    assert (regions.border_N4[:, 3] & (regions.lab_N3[:, 2] > 30)).any()
    found = paint(ranking(regions), regions)
    assert found[truth].mean() > found[~truth].mean() + 0.5


def test_one_region_has_no_rank():
    assert ranking(grid([[50]])).tolist() == [0]


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (3, 3)])
def test_few_regions_of_one_colour_that_no_place_tells_apart_have_none_either(shape):
    assert (ranking(grid(np.full(shape, 20.0))) == 0).all()


def test_few_regions():
    assert is_a_map(ranking(grid([[0, 100]])))
    assert is_a_map(ranking(random_grid(1, 20)))
    assert is_a_map(ranking(random_grid(20, 1)))
    assert is_a_map(ranking(grid(np.full((6, 6), 20.0))))
