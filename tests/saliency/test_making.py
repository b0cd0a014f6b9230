import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from tests.saliency.stubs import save, square_image, use_brightness

from semppl.data.masks import read_mask
from semppl.saliency.making import (
    Answers,
    Part,
    estimates,
    foreground,
    in_levels,
    mask_part,
    read_part,
    write_part,
)
from semppl.saliency.reading import Item, content_of


@pytest.fixture
def calls(monkeypatch):
    return use_brightness(monkeypatch)


def item(path):
    return Item(path.name, f"{path.name}.png", str(path))


def known(tmp_path, *contents):
    np.save(tmp_path / "known.npy", np.sort(np.array(contents, dtype="S32")))
    return str(tmp_path / "known.npy")


def test_levels_are_rounded_and_what_is_no_number_is_background():
    maps = np.array([0, 0.5, 1, 2, -1, np.nan, np.inf, -np.inf, 1 / 255], np.float32)
    assert in_levels(maps).tolist() == [0, 128, 255, 255, 0, 0, 255, 0, 1]


def test_foreground_begins_at_a_half():
    levels = in_levels(np.array([[0.49, 0.5, 0.51]], np.float32))
    assert foreground(levels, (1, 3)).tolist() == [[False, True, True]]
    # between a bright and a dark pixel the edge lies in the middle
    assert foreground(np.array([[255, 0]], np.uint8), (1, 4)).tolist() == [[True, True, False, False]]
    # areas of a small image are means
    assert foreground(np.array([[255, 255, 255, 0]], np.uint8), (1, 1)).tolist() == [[True]]


def test_the_cut_of_the_fusion_comes_last(calls):
    maps = estimates(square_image(8, 8))
    assert maps.shape == (4, 8, 8)
    np.testing.assert_array_equal(maps[1], 255 - maps[0])
    np.testing.assert_array_equal(maps[2], maps[0])  # the stub's fusion
    assert set(np.unique(maps[3])) <= {0, 255}
    np.testing.assert_array_equal(maps[3] > 127, maps[2] > 127)


def test_masks_have_the_size_of_their_images_and_the_right_pixels(tmp_path, calls):
    images = {
        "even.png": square_image(128, 128),
        "large.png": square_image(512, 300, top=128),
        "small.png": square_image(8, 4),
        "column.png": square_image(200, 1),
        "row.png": square_image(1, 30, share=1),
        "pixel.png": square_image(1, 1, share=1),
        "black.png": square_image(20, 20, share=0),
        "white.png": square_image(20, 20, share=1),
    }
    paths = [save(tmp_path / "data" / name, image) for name, image in images.items()]
    outcomes = mask_part(Part([item(path) for path in paths], str(tmp_path / "masks"), None))
    for outcome, (name, image) in zip(outcomes, images.items(), strict=True):
        assert (outcome.name, outcome.problem) == (name, "")
        assert (outcome.height, outcome.width) == image.shape[:2]
        assert outcome.content == content_of(str(tmp_path / "data" / name))
        mask = read_mask(str(tmp_path / "masks" / outcome.mask))
        np.testing.assert_array_equal(mask, image[..., 0] > 127, err_msg=name)
        assert outcome.foreground == pytest.approx(mask.mean())
        with Image.open(tmp_path / "masks" / outcome.mask) as written:
            assert written.mode == "1"


def test_grey_files_and_arrays_are_images_too(tmp_path, calls):
    Image.fromarray(square_image(16, 16)[..., 0]).save(tmp_path / "grey.png")
    array = Item("000003", "000003.png", square_image(16, 16))
    outcomes = mask_part(Part([item(tmp_path / "grey.png"), array], str(tmp_path / "masks"), None))
    assert [outcome.foreground for outcome in outcomes] == [0.5, 0.5]


def test_known_contents_and_broken_files_need_no_work(tmp_path, calls):
    seen, new = (save(tmp_path / f"{i}.png", square_image(8, 8, top=i)) for i in (0, 1))
    broken, gone = tmp_path / "broken.png", tmp_path / "gone.png"
    broken.write_bytes(b"\x89PNG")
    part = Part(
        [*map(item, (seen, broken, gone, new))], str(tmp_path), known(tmp_path, content_of(str(seen)))
    )
    first, second, third, fourth = mask_part(part)
    assert (first.content, first.height, first.problem) == (content_of(str(seen)), 0, "")
    assert second.problem == "not a readable image (damaged header)"
    assert third.problem == "not a readable image (no such file)"
    assert (fourth.height, len(calls)) == (8, 1)
    assert sorted(path.name for path in tmp_path.glob("*.png.png")) == ["1.png.png"]


def test_an_empty_table_knows_nothing(tmp_path, calls):
    path = save(tmp_path / "a.png", square_image(8, 8))
    (outcome,) = mask_part(Part([item(path)], str(tmp_path), known(tmp_path)))
    assert outcome.height == 8


def test_a_name_that_leaves_no_room_for_a_mask_is_a_problem_of_its_image(tmp_path, calls):
    image = Item("a", "a" * 300 + ".png", square_image(8, 8))
    (outcome,) = mask_part(Part([image], str(tmp_path / "masks"), None))
    assert "too long" in outcome.problem


def test_a_disk_that_refuses_is_an_error(tmp_path, calls):
    (tmp_path / "masks").write_text("a file")
    with pytest.raises(OSError, match="masks"):
        mask_part(Part([Item("a", "a.png", square_image(8, 8))], str(tmp_path / "masks"), None))


def test_both_halves_of_the_networks_way_lead_to_masks(tmp_path, calls):
    paths = [save(tmp_path / f"{i}.png", square_image(64, 32, share=i / 4)) for i in range(5)]
    paths[2].write_bytes(b"no image")
    part = Part([*map(item, paths)], str(tmp_path / "masks"), known(tmp_path, content_of(str(paths[0]))))
    squares = read_part(part, side=16)
    assert squares.images_B3ss.shape == (3, 3, 16, 16)
    maps_Bss = squares.images_B3ss[:, 0]
    outcomes = write_part(Answers(squares.asked, maps_Bss, squares.others, squares.masks))
    shares = {outcome.name: outcome.foreground for outcome in outcomes if outcome.height}
    assert shares == {"1.png": 0.25, "3.png": 0.75, "4.png": 1.0}
    assert [bool(outcome.problem) for outcome in outcomes if not outcome.height] == [False, True]
    assert calls == []


def test_processes_that_read_do_not_load_torch():
    modules = ", ".join(f"semppl.saliency.{name}" for name in ("examples", "looking", "making", "team"))
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_process_that_estimates_has_one_thread():
    code = (
        "import os, cv2, threadpoolctl; from semppl.saliency.making import one_thread; one_thread();"
        "assert cv2.getNumThreads() == 1; assert os.environ['OMP_NUM_THREADS'] == '1';"
        "assert {pool['num_threads'] for pool in threadpoolctl.threadpool_info()} == {1}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_without_new_images_asks_the_network_nothing(tmp_path, calls):
    squares = read_part(Part([], str(tmp_path), None), side=16)
    assert squares.images_B3ss.shape == (0, 3, 16, 16)
