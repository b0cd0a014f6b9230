from dataclasses import replace

import numpy as np
import pytest
from tests.saliency.grids import disc, grid, links_of, random_grid

from semppl.saliency.graph import alike, colour_distance, linked, symmetric, touching
from semppl.saliency.superpixels import superpixels


def of_colours(lab_N3):
    """Regions in one row."""
    return replace(grid(np.zeros((1, len(lab_N3)))), lab_N3=np.asarray(lab_N3, float))


def matrix(rows):
    return np.array([[mark == "x" for mark in row] for row in rows])


def test_a_matrix_of_pairs_holds_both_directions():
    pairs = np.array([[0, 2], [1, 2]])
    assert (symmetric(pairs, 4) == matrix(["..x.", "..x.", "xx..", "...."])).all()
    assert not symmetric(np.zeros((0, 2), np.int64), 3).any()


def test_touching_on_nine_regions():
    wanted = matrix(
        [
            ".x.x.....",
            "x.x.x....",
            ".x...x...",
            "x...x.x..",
            ".x.x.x.x.",
            "..x.x...x",
            "...x...x.",
            "....x.x.x",
            ".....x.x.",
        ]
    )
    assert (touching(grid(np.zeros((3, 3)))) == wanted).all()


def test_linked_on_nine_regions_of_which_two_lie_on_the_border():
    # a step or two, as a rook goes; the regions 0 and 8 are four steps apart but both on the border
    border = np.zeros((9, 4), bool)
    border[0, 1] = border[8, 2] = True
    wanted = matrix(
        [
            ".xxxx.x.x",
            "x.xxxx.x.",
            "xx..xx..x",
            "xx..xxxx.",
            "xxxx.xxxx",
            ".xxxx..xx",
            "x..xx..xx",
            ".x.xxxx.x",
            "x.x.xxxx.",
        ]
    )
    assert (linked(replace(grid(np.zeros((3, 3))), border_N4=border)) == wanted).all()


def test_nine_regions_with_a_border_all_around_are_all_linked():
    assert (linked(grid(np.zeros((3, 3)))) == ~np.eye(9, dtype=bool)).all()


def test_links_pair_by_pair():
    for regions in (random_grid(6, 7), random_grid(1, 5), random_grid(1, 1), superpixels(disc(radius=20)[0])):
        found = linked(regions)
        assert (found == links_of(regions)).all()
        assert (found == found.T).all()


def test_distance_and_likeness_by_hand():
    # distances 5, 13 and 12 of at most 13
    regions = of_colours([[50, 0, 0], [50, 3, 4], [62, 3, 4]])
    assert np.allclose(colour_distance(regions), [[0, 5, 13], [5, 0, 12], [13, 12, 0]])
    wanted = np.exp(-10 * np.array([[0, 5, 13], [5, 0, 12], [13, 12, 0]]) / 13)
    assert np.allclose(alike(regions, 10), wanted)


@pytest.mark.parametrize("strength", [1.0, 10.0, 200.0])
def test_likeness_is_one_for_the_same_and_least_for_the_farthest(strength):
    regions = random_grid()
    values = alike(regions, strength)
    assert (np.diag(values) == 1).all()
    assert (values == values.T).all()
    assert 0 <= values.min() <= values.max() <= 1
    assert values.min() == pytest.approx(np.exp(-strength))


def test_likeness_does_not_depend_on_contrast():
    regions = random_grid()
    faint = replace(regions, lab_N3=40 + 0.01 * regions.lab_N3)
    assert np.allclose(alike(faint, 10), alike(regions, 10))


def test_regions_of_one_colour_are_all_alike():
    assert (alike(grid(np.full((3, 4), 30.0)), 10) == 1).all()
    assert alike(grid([[30.0]]), 10).tolist() == [[1]]
