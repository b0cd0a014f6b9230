from dataclasses import FrozenInstanceError, asdict

import pytest

from semppl.views.recipe import View, paper_recipe, small_image_recipe

_SHARED = {
    "crop": 1.0,
    "flip": 0.5,
    "jitter": 0.8,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.2,
    "hue": 0.1,
    "grey": 0.2,
    "blur_taps": None,
    "solarise_by": "invert",
}
_ODD = {**_SHARED, "blur": 0.1, "solarise": 0.2}
_EVEN = {**_SHARED, "blur": 1.0, "solarise": 0.0}


def test_the_papers_views_are_the_even_odd_table_with_large_views_first():
    assert [asdict(view) for view in paper_recipe()] == [
        {**_ODD, "size": 224, "min_area": 0.14, "max_area": 1.0},
        {**_EVEN, "size": 224, "min_area": 0.08, "max_area": 1.0},
        {**_ODD, "size": 224, "min_area": 0.14, "max_area": 1.0},
        {**_EVEN, "size": 224, "min_area": 0.08, "max_area": 1.0},
        {**_ODD, "size": 96, "min_area": 0.05, "max_area": 0.14},
        {**_EVEN, "size": 96, "min_area": 0.05, "max_area": 0.14},
    ]


def test_the_papers_gaussians_have_23_and_9_taps():
    assert [view.taps for view in paper_recipe()] == [23, 23, 23, 23, 9, 9]


@pytest.mark.parametrize("recipe", [paper_recipe, small_image_recipe])
@pytest.mark.parametrize(("large", "small"), [(2, 0), (3, 1), (1, 5)])
def test_numbers_and_sizes_are_free_and_parity_starts_anew_with_small_views(recipe, large, small):
    views = recipe(large, small, large_size=50, small_size=30)
    assert [view.size for view in views] == [50] * large + [30] * small
    pattern = [0.2, 0.0, 0.2, 0.0, 0.2]
    assert [view.solarise for view in views] == pattern[:large] + pattern[:small]


def test_views_of_small_images_are_never_blurred_and_show_larger_shares():
    views = small_image_recipe()
    assert [view.size for view in views] == [32] * 4 + [16] * 2
    assert [view.blur for view in views] == [0.0] * 6
    assert [(view.min_area, view.max_area) for view in views] == [(0.2, 1.0)] * 4 + [(0.1, 0.4)] * 2
    assert [view.solarise for view in views] == [0.2, 0.0, 0.2, 0.0, 0.2, 0.0]


@pytest.mark.parametrize(("min_area", "max_area"), [(0.0, 1.0), (-0.1, 1.0), (0.5, 0.4), (0.1, 1.01)])
def test_areas_that_no_image_has_are_refused_with_their_values(min_area, max_area):
    with pytest.raises(ValueError, match=f"from {min_area} to {max_area}"):
        View(size=8, min_area=min_area, max_area=max_area)


def test_a_view_without_pixels_is_refused():
    with pytest.raises(ValueError, match="0 px"):
        View(size=0, min_area=0.1)


def test_the_extreme_areas_are_allowed():
    assert View(size=1, min_area=1.0).max_area == 1.0
    assert View(size=1, min_area=0.3, max_area=0.3).min_area == 0.3


def test_views_cannot_be_changed_behind_the_back_of_others_that_share_them():
    with pytest.raises(FrozenInstanceError):
        paper_recipe()[0].size = 8
