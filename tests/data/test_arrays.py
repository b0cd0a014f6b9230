import zipfile

import numpy as np
import pytest
import torch

from semppl.core.errors import UserError
from semppl.data.arrays import load_npz


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def x(num=4, size=3, channels=None):
    shape = (num, size, size) if channels is None else (num, size, size, channels)
    return np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)


def test_grey_images_get_three_equal_channels_and_colours_keep_their_place(tmp_path):
    grey = load_npz(save(tmp_path / "g.npz", x=x(), y=np.array([0, 1, -1, -1])))
    assert grey.images.shape == (4, 3, 3, 3)
    assert torch.equal(grey.images[:, 0], grey.images[:, 2])
    array = x(channels=3)
    colour = load_npz(save(tmp_path / "c.npz", x=array, y=np.array([0, 1, -1, -1])))
    assert colour.images[1, 2, 0, 1] == array[1, 0, 1, 2]
    assert colour.labelled_L.tolist() == [0, 1]
    assert colour.names[2] == "x[2]"


def test_without_y_nothing_has_a_label(tmp_path):
    assert len(load_npz(save(tmp_path / "u.npz", x=x())).labelled_L) == 0


def test_names_and_columns_of_keras_are_read(tmp_path):
    column = np.array([[0], [1], [1], [0]])
    keras = save(tmp_path / "k.npz", x_train=x(), y_train=column, x_test=x(2), y_test=column[:2])
    ours = save(tmp_path / "o.npz", x=x(), y=column[:, 0], x_test=x(2), y_test=column[:2, 0])
    read, expected = load_npz(keras), load_npz(ours)
    assert torch.equal(read.images, expected.images)
    assert read.labels_M.tolist() == [0, 1, 1, 0]
    assert read.test_labels_T is not None
    assert read.test_labels_T.tolist() == [0, 1]
    assert read.fingerprint == expected.fingerprint


@pytest.mark.parametrize("name", ["x", "y"])
def test_an_array_under_both_of_its_names_is_refused(tmp_path, name):
    arrays = {"x": x(), "y": np.array([0, 1, -1, -1])}
    twice = save(tmp_path / "t.npz", **arrays, **{f"{name}_train": arrays[name]})
    with pytest.raises(UserError, match=f"t.npz: has both '{name}' and '{name}_train': keep one"):
        load_npz(twice)


def test_statistics_are_those_of_the_pixels(tmp_path):
    array = x(channels=3)
    mean, std = load_npz(save(tmp_path / "s.npz", x=array)).statistics()
    assert mean.numpy() == pytest.approx(array.mean((0, 1, 2)) / 255, rel=1e-5)
    assert std.numpy() == pytest.approx(array.std((0, 1, 2), ddof=1) / 255, rel=1e-5)


def test_class_names_masks_and_test_images_are_read(tmp_path):
    masks = np.zeros((4, 3, 3), dtype=bool)
    masks[1, 2, 0] = True
    data = load_npz(
        save(
            tmp_path / "all.npz",
            x=x(),
            y=np.array([0, 1, -1, -1]),
            classes=np.array(["ant", "bee"]),
            masks=masks,
            x_test=x(2),
            y_test=np.array([1, 0]),
        )
    )
    assert data.classes == ("ant", "bee")
    assert data.masks_MHW is not None
    assert data.masks_MHW.nonzero().tolist() == [[1, 2, 0]]
    assert data.test_labels_T is not None
    assert data.test_labels_T.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"images": x()}, "no array 'x' .found images"),
        ({"x": x().astype(np.float32)}, "x is float32: images must be uint8"),
        ({"x": x(channels=2)}, r"x has shape \(4, 3, 3, 2\)"),
        ({"x": x()[:0]}, "x has shape"),
        ({"x": x(), "y": np.zeros(3, int)}, r"y has shape \(3,\): expected one label for each of 4"),
        ({"x": x(), "y": np.zeros(4)}, "y is float64: labels must be integers"),
        ({"x": x(), "y": np.array([0, -2, 0, 0])}, "label out of range: -2"),
        ({"x": x(), "y": np.array([0, 3, 0, 0]), "classes": np.array(["a", "b"])}, "label 3 is out of range"),
        ({"x": x(), "y": np.zeros(4, int), "classes": np.array(["a", "a"])}, "same name twice"),
        (
            {"x": x(), "y": np.array([0, 1, 2**63 + 5, 1], dtype=np.uint64)},
            "out of range: 9223372036854775813",
        ),
        ({"x": x(), "y": np.array([0, 1, 5_000_000, 1])}, "label 5000000 is out of range"),
        ({"x": x(), "y": np.zeros(4, int), "classes": np.array("ant")}, r"'classes' has shape \(\)"),
        ({"x": x(), "x_test": x(2)}, "x_test and y_test belong together"),
        ({"x": x(), "y_test": np.zeros(2, int)}, "x_test and y_test belong together"),
        ({"x": x(), "x_test": x(2), "y_test": np.zeros(3, int)}, "y_test has shape"),
        ({"x": x(), "x_test": x(2, size=5), "y_test": np.zeros(2, int)}, "another size"),
        ({"x": x(), "x_test": x(2), "y_test": np.array([0, -1])}, "y_test has images without a label"),
    ],
)
def test_what_is_wrong_is_said_with_the_files_name(tmp_path, arrays, words):
    with pytest.raises(UserError, match=words) as caught:
        load_npz(save(tmp_path / "bad.npz", **arrays))
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_damaged_and_pickled_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_npz(tmp_path / "none.npz")
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04junk")
    with pytest.raises(UserError, match="not a readable npz"):
        load_npz(tmp_path / "junk.npz")
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, x())
    with pytest.raises(UserError, match="not a readable npz"):
        load_npz(tmp_path / "array.npz")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x", "no array")
    with pytest.raises(UserError, match="'x' is not an array"):
        load_npz(tmp_path / "text.npz")
    np.savez_compressed(tmp_path / "flipped.npz", x=x(40, 8))
    damaged = bytearray((tmp_path / "flipped.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(damaged)
    with pytest.raises(UserError, match="not a readable npz"):
        load_npz(tmp_path / "flipped.npz")
    np.savez(tmp_path / "object.npz", x=np.array([{}], dtype=object))
    with pytest.raises(UserError, match="not a readable npz"):
        load_npz(tmp_path / "object.npz")


@pytest.mark.parametrize("full", [None, 1, 255])
def test_masks_may_be_yes_and_no_in_bytes(tmp_path, full):
    masks = np.random.default_rng(0).random((4, 3, 3)) < 0.5
    stored = masks if full is None else masks.astype(np.uint8) * full
    data = load_npz(save(tmp_path / "m.npz", x=x(), masks=stored))
    assert np.array_equal(data.masks_MHW.numpy(), masks)
    assert not data.notes


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        (np.zeros((4, 3, 3)), "masks is float64 (4, 3, 3) and not bool (4, 3, 3)"),
        (np.zeros((4, 3, 2), bool), "masks is bool (4, 3, 2) and not bool (4, 3, 3)"),
        (np.zeros((3, 3, 3), bool), "masks is bool (3, 3, 3) and not bool (4, 3, 3)"),
        (np.arange(36, dtype=np.uint8).reshape(4, 3, 3), "masks is uint8 (4, 3, 3) and not bool (4, 3, 3)"),
    ],
)
def test_masks_of_another_kind_or_size_are_named_and_absent(tmp_path, masks, words):
    path = save(tmp_path / "m.npz", x=x(), masks=masks)
    data = load_npz(path)
    assert data.masks_MHW is None
    assert data.notes == (f"{path}: {words}: treated as absent",)
