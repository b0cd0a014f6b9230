from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from semppl.data.attributes import class_names, content_of


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 4, 5, 1), (2, 4, 5, 3), (2, 3, 4, 5)])
def test_pixels_in_any_layout_become_rgb(shape):
    data = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    pixels, labels = content_of(SimpleNamespace(data=data, targets=[1, 0]))
    assert pixels.shape == (2, 3, 4, 5)
    assert pixels.dtype == torch.uint8
    assert pixels[1, 2, 3, 4] == data.reshape(2, -1)[1, -1]
    assert list(labels) == [1, 0]


def test_labels_may_be_called_so_and_have_several_columns():
    data = torch.zeros(2, 4, 5, dtype=torch.uint8)
    assert list(content_of(SimpleNamespace(data=data, labels=np.array([3, 4])))[1]) == [3, 4]
    assert list(content_of(SimpleNamespace(data=data, targets=np.array([[3, 9], [4, 9]])))[1]) == [3, 4]


def test_pairs_are_paths_or_pixels():
    assert content_of(SimpleNamespace(samples=[("a", 1), ("b", None)])) == (["a", "b"], [1, None])
    pixels, labels = content_of(SimpleNamespace(_samples=[(torch.zeros(4, 5, dtype=torch.uint8), 2)]))
    assert pixels.shape == (1, 3, 4, 5)
    assert labels == [2]


def test_files_and_numbers_within_classes():
    listed = SimpleNamespace(_image_files=["a", "b"], _labels=[0, 1])
    assert content_of(listed) == (["a", "b"], [0, 1])
    numbered = SimpleNamespace(root="r", all_categories=["x", "y"], index=[(1, "f.jpg"), (0, "g.jpg")])
    assert content_of(numbered) == ([Path("r/y/f.jpg"), Path("r/x/g.jpg")], [1, 0])


def test_names_are_text_and_distinct():
    assert class_names(SimpleNamespace()) is None
    assert class_names(SimpleNamespace(categories=["a", ("b", "c")])) == ("a", "b, c")
    assert class_names(SimpleNamespace(classes=["crane", "owl", "crane"])) == (
        "crane (0)",
        "owl",
        "crane (2)",
    )
