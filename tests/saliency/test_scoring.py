import math

import numpy as np
import pytest
from tests.saliency.stubs import Network, save, square_image, use_brightness

from semppl.core.errors import UserError
from semppl.data.masks import write_mask
from semppl.saliency.items import items_of
from semppl.saliency.learning import refined_maps
from semppl.saliency.scoring import COLUMNS, plain, rows, score, truths
from semppl.saliency.team import team


@pytest.fixture
def world(tmp_path, monkeypatch):
    use_brightness(monkeypatch)
    for i in range(3):
        image = square_image(128, 128, share=(i + 1) / 4)
        save(tmp_path / "data" / f"{i}.png", image)
        # with the suffix of the image, and without
        write_mask(tmp_path / "truth" / (f"{i}.png.png" if i else "0.png"), image[..., 0] > 127)
    return tmp_path


def scored(world, refine=None, side=None):
    told = []
    with team(0, begin=print, goes_on="go on") as crew:
        items = items_of(str(world / "data"), None)
        found = score(items, world / "truth", crew, refine, side, lambda *words: told.append(words))
    return *found, told


def test_a_map_that_is_the_truth_scores_1_and_its_opposite_0(world):
    scores, notes, told = scored(world)
    assert (notes, told) == ((), [(1, 3), (2, 3), (3, 3)])
    bright, dark, fused = scores["bright"], scores["dark"], scores["fused"]
    assert (bright.f, bright.mean_f, bright.error, bright.images) == (1, 1, 0, 3)
    assert (dark.f, dark.error) == (0, 1)
    assert fused == bright
    share = 0.5  # of the pixels of all images
    assert scores["all foreground"].f == pytest.approx(1.3 * share / (0.3 * share + 1))
    assert scores["all foreground"].error == pytest.approx(1 - share)


def test_the_network_is_scored_beside_the_others(world):
    scores, *_ = scored(world, lambda images: refined_maps(Network(), images), Network.size)
    assert list(scores)[:5] == ["bright", "dark", "fused", "fused, cut", "refined"]
    assert scores["refined"].f > 0.95


def test_a_truth_of_another_size_is_left_out_and_named(world):
    write_mask(world / "truth" / "1.png.png", np.ones((3, 3), np.bool_))
    scores, notes, _ = scored(world)
    assert scores["bright"].images == 2
    assert notes == ("true masks of another size than their image are left out: 1.png",)


def test_truths_that_all_have_another_size_are_refused_by_name(world):
    for number in range(3):
        write_mask(world / "truth" / f"{number}.png.png", np.ones((3, 3), np.bool_))
    with pytest.raises(UserError, match=r"has the size of its image, such as that of 0.png, 1.png, 2.png$"):
        scored(world)


def test_a_truth_with_the_full_name_counts_and_may_be_a_place_of_ours(world):
    place = world / "place"
    place.mkdir()
    (world / "truth").rename(place / "masks")
    (place / "masks.json").write_text("{}")
    place.rename(world / "truth")
    write_mask(world / "truth" / "masks" / "1.png", np.ones((3, 3), np.bool_))
    scores, notes, _ = scored(world)
    assert (scores["bright"].images, notes) == (3, ())


def test_images_without_a_truth_are_not_scored(world):
    (world / "truth" / "0.png").unlink()
    items = items_of(str(world / "data"), None)
    assert list(truths(items, world / "truth")) == [1, 2]


def test_a_truth_of_other_images_is_refused(world):
    for file in (world / "truth").iterdir():
        file.rename(file.with_name(f"x{file.name}"))
    with pytest.raises(UserError, match=r"no mask has the name of an image, such as 0.png.png or 0.png"):
        scored(world)


def test_the_table_and_the_file_have_all_maps(world):
    scores, *_ = scored(world)
    table = rows(scores)
    assert {len(row) for row in table} == {len(COLUMNS)}
    assert [table[0][i] for i in (0, 1, 3, 4, 5)] == ["bright", "1.000", "1.000", "1.000", "0.000"]
    written = plain(scores)
    assert list(written["maps"]) == list(scores)
    assert math.isclose(written["maps"]["bright"]["f"], 1)
