import hashlib

import pytest
import torch

from semppl.core.errors import UserError
from semppl.data.dataset import Dataset
from semppl.data.splits import digest, keep_per_class, split_table

LABELS = torch.arange(30) % 3
CLASSES = ("cat", "dog", "owl")


def test_each_class_keeps_as_many_labels_as_asked_and_they_are_right():
    kept = keep_per_class(LABELS, 4, CLASSES, seed=0)
    assert torch.bincount(kept[kept >= 0]).tolist() == [4, 4, 4]
    assert torch.equal(kept[kept >= 0], LABELS[kept >= 0])


def test_the_choice_is_the_seeds():
    assert torch.equal(keep_per_class(LABELS, 4, CLASSES, 1), keep_per_class(LABELS, 4, CLASSES, 1))
    assert not torch.equal(keep_per_class(LABELS, 4, CLASSES, 1), keep_per_class(LABELS, 4, CLASSES, 2))


def test_a_class_with_too_few_is_named():
    labels = torch.tensor([0] * 11 + [1] * 11 + [2] * 10)
    with pytest.raises(UserError, match=r"'owl' has 10 labelled images: 11"):
        keep_per_class(labels, 11, CLASSES, seed=0)


def test_the_table_says_nothing_about_withheld_labels():
    data = Dataset(
        name="d",
        images_M3HW=torch.zeros(3, 3, 2, 2, dtype=torch.uint8),
        labels_M=torch.tensor([-1, 2, -1]),
        names=("a, b", "c", "d"),
        classes=CLASSES,
        test_images_T3HW=torch.zeros(1, 3, 2, 2, dtype=torch.uint8),
        test_labels_T=torch.tensor([1]),
    )
    table = split_table(data)
    assert table.splitlines() == [
        "path,label,role",
        '"a, b",,unlabelled',
        "c,owl,labelled",
        "d,,unlabelled",
        "x_test[0],dog,test",
    ]
    assert digest(table) == hashlib.sha256(table.encode()).hexdigest()
