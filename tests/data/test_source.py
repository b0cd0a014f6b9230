import numpy as np
import pytest
import torch

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.source import load_dataset


def test_withheld_labels_become_hidden_truth_and_nothing_else():
    full, data = load_dataset("digits"), load_dataset("digits", labels_per_class=3, seed=1)
    assert len(data.labelled_L) == 30
    assert data.oracle_M is None
    assert data.hidden is not None
    index = torch.arange(len(full.labels_M))
    table = data.hidden.agreement(index, full.labels_M, torch.zeros_like(index), 1)
    assert table.tolist() == [[1437, 1437]]


def test_the_oracle_alone_reveals_them():
    data = load_dataset("digits", labels_per_class=3, oracle=True)
    assert data.oracle_M is not None
    assert torch.equal(data.oracle_M, load_dataset("digits").labels_M)
    assert (data.labels_M == UNLABELLED).sum() == 1437 - 30


def test_a_class_without_label_is_named(tmp_path):
    path = tmp_path / "gap.npz"
    images = np.zeros((3, 2, 2), dtype=np.uint8)
    np.savez(path, x=images, y=np.array([0, 2, -1]))
    with pytest.raises(UserError, match=r"class '1' has no label"):
        load_dataset(str(path))
    np.savez(path, x=images, y=np.array([0, 1, -1]), classes=np.array(["ant", "bee", "cow"]))
    with pytest.raises(UserError, match=r"class 'cow' has no label"):
        load_dataset(str(path))


def test_data_without_labels_is_refused_unless_none_are_needed(tmp_path):
    path = tmp_path / "bare.npz"
    np.savez(path, x=np.zeros((3, 2, 2), dtype=np.uint8))
    with pytest.raises(UserError, match="no image has a label"):
        load_dataset(str(path))
    assert len(load_dataset(str(path), require_labels=False).labels_M) == 3


def test_other_things_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match="no such data"):
        load_dataset("cat_pictures")
    with pytest.raises(UserError, match="not a data set this version reads"):
        load_dataset(str(tmp_path))


def test_a_file_with_hidden_truth_has_nothing_to_withhold(npz):
    with pytest.raises(UserError, match="y_hidden already"):
        load_dataset(str(npz), labels_per_class=1)
    with pytest.raises(UserError, match="labels per class"):
        load_dataset(str(npz), oracle=True)
