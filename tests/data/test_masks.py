import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semppl.core.errors import UserError
from semppl.data import files, masks
from semppl.data.files import read_pixels
from semppl.data.masks import (
    MaskFiles,
    array_mask_name,
    default_place,
    file_mask_name,
    fits,
    fitted,
    folder_of,
    foreground_of,
    in_words,
    other_mask_name,
    read_mask,
    read_or_absent,
    write_mask,
)
from semppl.data.paths import Paths


def noise(height, width, seed=0):
    return np.random.default_rng(seed).random((height, width)) < 0.5


@pytest.fixture
def huge(monkeypatch):
    """Images of more than 64 pixels count as huge."""
    for module in (files, masks):
        monkeypatch.setattr(module, "SHRUNK_ABOVE", 64)


def test_masks_lie_beside_folders_and_files(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    expected = tmp_path / "photos.masks"
    for source in ("photos", "photos/", "./photos", str(tmp_path / "photos"), "photos/../photos"):
        assert default_place(source, None) == expected
    monkeypatch.chdir(tmp_path / "photos")
    assert default_place(".", "anywhere") == expected
    assert default_place("../d.npz", None) == tmp_path / "d.npz.masks"


def test_masks_of_sets_with_a_name_lie_below_their_root(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert default_place("digits", None) == tmp_path / "digits.masks"
    assert (
        default_place("CIFAR10", "sets")
        == default_place("cifar10", "sets")
        == tmp_path / "sets/cifar10.masks"
    )


def test_names():
    assert array_mask_name(17) == "000017.png"
    assert array_mask_name(1_234_567) == "1234567.png"
    assert file_mask_name("cats/1.jpg") == "cats/1.jpg.png"
    assert other_mask_name("cats/1.jpg") == "cats/1.png"
    assert other_mask_name("a.b/1.tar.JPG") == "a.b/1.tar.png"


def test_a_place_of_ours_keeps_its_masks_below_it(tmp_path):
    assert folder_of(tmp_path) == tmp_path
    (tmp_path / "masks.json").write_text("{}")
    assert folder_of(tmp_path) == tmp_path / "masks"


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 8), (7, 13)])
def test_what_is_written_is_read_again(tmp_path, shape):
    path = tmp_path / "a" / "b.jpg.png"
    for mask in (noise(*shape), np.zeros(shape, bool), np.ones(shape, bool), noise(*shape[::-1]).T):
        write_mask(path, mask)
        assert np.array_equal(read_mask(str(path)), mask)
    with Image.open(path) as image:
        assert image.mode == "1"
        assert image.size == shape[::-1]
    assert [file.name for file in path.parent.iterdir()] == ["b.jpg.png"]


def test_a_mask_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m.png"
    write_mask(path, noise(4, 4))

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="full"):
        write_mask(path, ~noise(4, 4))
    assert np.array_equal(read_mask(str(path)), noise(4, 4))
    assert list(tmp_path.iterdir()) == [path]


def test_from_half_of_the_full_value_on_it_is_foreground(tmp_path):
    levels = np.array([[0, 1, 127, 128, 200, 255]], np.uint8)
    expected = [[False, False, False, True, True, True]]
    grey = Image.fromarray(levels)
    for name, image in {"L": grey, "RGB": grey.convert("RGB"), "P": grey.convert("P")}.items():
        image.save(tmp_path / f"{name}.png")
        assert read_mask(str(tmp_path / f"{name}.png")).tolist() == expected
    Image.fromarray(levels.astype(np.uint16) << 8).save(tmp_path / "deep.png")
    assert read_mask(str(tmp_path / "deep.png")).tolist() == expected
    colours = np.array([[[255, 0, 0], [255, 255, 0], [127, 127, 128], [128, 128, 127]]], np.uint8)
    Image.fromarray(colours).save(tmp_path / "colours.png")
    assert read_mask(str(tmp_path / "colours.png")).tolist() == [[False, True, False, True]]


@pytest.mark.parametrize("channels", [1, 3])
def test_foreground_is_where_the_mean_is_above_half_however_pixels_lie(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, channels), dtype=np.uint8)
    expected = [[sum(map(int, pixel)) / channels > 127.5 for pixel in row] for row in pixels]
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    for each in (pixels, planes.transpose(1, 2, 0)):
        assert foreground_of(each).tolist() == expected


def test_what_cannot_be_read_is_one_line_with_its_name(tmp_path):
    (tmp_path / "m.png").write_bytes(b"junk")
    for name in ("m.png", "none.png"):
        with pytest.raises(UserError, match=name) as caught:
            read_mask(str(tmp_path / name))
        assert "\n" not in str(caught.value)


def test_masks_fit_images_of_their_size_alone():
    assert fits((30, 40), (30, 40))
    for other in ((40, 30), (60, 80), (30, 41), (1, 40)):
        assert not fits(other, (30, 40))
        assert fitted(np.ones(other, bool), (30, 40)) is None
    assert in_words((30, 40)) == "40×30"


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("shape", [(30, 20), (25, 37), (9, 8)])
def test_the_mask_of_a_huge_image_shrinks_with_it(tmp_path, huge, suffix, shape):
    width = shape[1]
    left = np.zeros(shape, bool)
    left[:, : width // 2] = True
    Image.fromarray(left.astype(np.uint8) * 255).convert("RGB").save(tmp_path / f"image.{suffix}", quality=95)
    write_mask(tmp_path / "mask.png", left)
    pixels = read_pixels(str(tmp_path / f"image.{suffix}"))
    size = pixels.shape[:2]
    assert size != shape
    mask, problem = read_or_absent(str(tmp_path / "mask.png"), size)
    assert not problem
    assert mask is not None
    assert mask.shape == size
    # but for the column where the halves meet
    assert ((pixels[..., 0] > 127) != mask).any(0).sum() <= 1


def test_a_pixel_of_a_smaller_mask_says_what_most_of_its_pixels_say(huge):
    mask = np.zeros((12, 12), bool)
    mask[0, :2] = mask[1, 0] = mask[0, 4] = True
    small = fitted(mask, (6, 6))
    assert small is not None
    # three of four, none, one of four
    assert small[0, :3].tolist() == [True, False, False]


def test_the_short_side_of_a_huge_image_may_be_off_by_a_pixel(huge):
    for short, expected in ((29, True), (30, True), (31, True), (28, False), (32, False)):
        assert fits((short, 40), (60, 80)) == expected
        assert fits((40, short), (80, 60)) == expected


def test_a_huge_image_of_another_shape_is_another_one(huge):
    assert fits((30, 20), (15, 10))
    assert not fits((30, 20), (10, 15))
    assert fits((1, 200), (1, 100)), "a thin one shrinks in its length alone"
    assert not fits((30, 20), (3, 2)), "so small a thing was never huge"


def test_masks_of_some_images_are_picked_and_travel(tmp_path):
    write_mask(tmp_path / "a.png", noise(4, 5))
    whole = MaskFiles(tmp_path, Paths(["a.png", "", "ü/b.png", ""]))
    assert len(whole) == 4
    assert whole.present_N.tolist() == [0, 2]
    part = pickle.loads(pickle.dumps(whole.take(np.array([2, 1, 2]))))
    assert [part.path(i) for i in range(3)] == [str(tmp_path / "ü/b.png"), None, str(tmp_path / "ü/b.png")]
    assert part.present_N.tolist() == [0, 2]


def test_a_mask_that_has_gone_bad_is_absent_and_named(tmp_path):
    path = tmp_path / "a.png"
    write_mask(path, noise(4, 5))
    mask, problem = read_or_absent(str(path), (4, 5))
    assert np.array_equal(mask, noise(4, 5))
    assert not problem
    assert read_or_absent(str(path), (8, 10)) == (
        None,
        f"mask {path}: 5×4, the image is 10×8: treated as absent",
    )
    path.write_bytes(path.read_bytes()[:40])
    mask, problem = read_or_absent(str(path), (4, 5))
    assert mask is None
    assert problem.startswith(f"mask {path}: not a readable image")
    assert problem.endswith(": treated as absent")


def test_a_mask_of_zeros_and_ones_means_what_its_maker_meant(tmp_path):
    wanted = noise(5, 7)
    Image.fromarray(wanted.astype(np.uint8)).save(tmp_path / "ones.png")
    assert (read_mask(str(tmp_path / "ones.png")) == wanted).all()
    Image.fromarray(np.zeros((5, 7), np.uint8)).save(tmp_path / "black.png")
    assert not read_mask(str(tmp_path / "black.png")).any()


def test_the_longest_name_that_a_file_may_have_is_that_of_a_mask_too(tmp_path):
    path = tmp_path / ("x" * 251 + ".png")
    write_mask(path, noise(4, 5))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
