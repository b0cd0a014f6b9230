import numpy as np
import pytest
from tests.saliency.grids import disc, grid, is_a_map, links_of, overlap, random_grid

from semppl.saliency.absorption import absorption
from semppl.saliency.superpixels import paint, superpixels


def scaled(values):
    return (values - values.min()) / (values.max() - values.min())


def chain_of(regions):
    """Probabilities of the steps of a walk over the regions and then the absorbing copies."""
    count, border = len(regions), np.flatnonzero(regions.border_N4.any(1)).tolist()
    colour, links = regions.lab_N3[:, 0], links_of(regions)
    largest = max(np.ptp(colour), 1e-9)
    steps = np.zeros((count + len(border), count + len(border)))
    for i in range(count):
        for j in range(count):
            likeness = np.exp(-10 * abs(colour[i] - colour[j]) / largest)
            if links[i, j]:
                steps[i, j] = likeness
            if j in border and (links[i, j] or i == j):
                steps[i, count + border.index(j)] = likeness
    steps[range(count, len(steps)), range(count, len(steps))] = 1
    return steps / steps.sum(1, keepdims=True)


def times(regions):
    """Expected steps: those of the fundamental matrix."""
    count = len(regions)
    inner = chain_of(regions)[:count, :count]
    return np.linalg.inv(np.eye(count) - inner) @ np.ones(count)


@pytest.mark.parametrize("seed", range(4))
def test_the_expected_steps_of_the_whole_chain(seed):
    regions = random_grid(6, 6, seed)
    assert np.allclose(absorption(regions), scaled(times(regions)), atol=1e-4)


def test_the_expected_steps_are_the_chances_that_a_walk_goes_on_added_up():
    regions = random_grid(4, 4)
    inner = chain_of(regions)[:16, :16]
    total, goes_on = np.zeros(16), np.ones(16)
    for _ in range(20_000):
        total += goes_on
        goes_on = inner @ goes_on
    assert goes_on.max() < 1e-6
    assert np.allclose(absorption(regions), scaled(total), atol=1e-4)


def test_every_walk_ends_in_a_copy():
    chain = chain_of(random_grid(5, 5))
    assert np.allclose(chain.sum(1), 1)
    assert np.allclose(np.linalg.matrix_power(chain, 2**16)[:25, 25:].sum(1), 1)


def test_far_from_a_border_of_the_same_colour_the_walk_takes_longest():
    regions = grid(np.full((5, 5), 40.0))
    found = absorption(regions).reshape(5, 5)
    assert found[2, 2] == 1
    assert np.allclose(found, scaled(times(regions)).reshape(5, 5))


def test_nine_regions_of_one_colour_by_hand():
    # all are linked, eight have copies: half of all steps end the walk, wherever it is
    assert np.allclose(times(grid(np.full((3, 3), 40.0))), 2)
    assert (absorption(grid(np.full((3, 3), 40.0))) == 0).all()


def test_a_centre_that_differs_by_hand():
    # with w = e⁻¹⁰: t = 1 + t'/2 at the centre, t' = 1 + (7 t' + w t)/(15 + w) around it
    w = np.exp(-10)
    around = (15 + 2 * w) / (8 + w / 2)
    colours = np.full((3, 3), 10.0)
    colours[1, 1] = 90
    wanted = np.full((3, 3), around)
    wanted[1, 1] = 1 + around / 2
    assert np.allclose(times(grid(colours)).reshape(3, 3), wanted)
    assert np.allclose(absorption(grid(colours)).reshape(3, 3), scaled(wanted))


@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_image_has_the_mirrored_times(seed):
    colours = 100 * np.random.default_rng(seed).random((6, 7))
    there = absorption(grid(colours)).reshape(6, 7)
    assert np.allclose(absorption(grid(colours[:, ::-1])).reshape(6, 7), there[:, ::-1])
    assert np.allclose(absorption(grid(colours.T)).reshape(7, 6), there.T)


@pytest.mark.parametrize("centre", [(48, 64), (34, 90), (60, 34)])
def test_a_disc_is_found_wherever_it_lies(centre):
    image, truth = disc(centre)
    regions = superpixels(image)
    assert overlap(paint(absorption(regions), regions) >= 0.5, truth) > 0.85


def test_few_regions():
    assert absorption(grid([[50]])).tolist() == [0]
    assert (absorption(grid([[50, 50]])) == 0).all()
    assert is_a_map(absorption(grid([[0, 100]])))
    assert is_a_map(absorption(random_grid(1, 20)))
    assert is_a_map(absorption(random_grid(20, 1)))
