import hashlib

import pytest
import torch

from semppl.core.errors import UserError
from semppl.data.dataset import Dataset
from semppl.data.splits import digest, hold_out, keep_fraction, keep_per_class, split_table

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
        images=torch.zeros(3, 3, 2, 2, dtype=torch.uint8),
        labels_M=torch.tensor([-1, 2, -1]),
        names=("a, b", "c", "d"),
        classes=CLASSES,
        test_images=torch.zeros(1, 3, 2, 2, dtype=torch.uint8),
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


def test_a_fraction_of_each_class_is_kept():
    labels = torch.tensor([0] * 10 + [1] * 4 + [2])
    kept = keep_fraction(labels, 0.3, CLASSES, seed=0)
    assert torch.bincount(kept[kept >= 0]).tolist() == [3, 1, 1]
    assert torch.equal(keep_fraction(labels, 1.0, CLASSES, seed=0), labels)
    with pytest.raises(UserError, match="above 0"):
        keep_fraction(labels, 0.0, CLASSES, seed=0)


def test_validation_takes_a_share_and_spares_poor_classes():
    labels = torch.tensor([0] * 10 + [1] * 3 + [2] * 2 + [-1] * 5)
    train, held = hold_out(labels, 0.2, seed=0)
    assert torch.bincount(held[held >= 0], minlength=3).tolist() == [2, 1, 0]
    assert torch.equal(train.where(train >= 0, held), labels), "each label is in exactly one of the two"
    assert ((train >= 0) & (held >= 0)).sum() == 0
    assert not torch.equal(held, hold_out(labels, 0.2, seed=1)[1])
    assert torch.equal(hold_out(labels, 0.0, seed=0)[0], labels)
    with pytest.raises(UserError, match="below 1"):
        hold_out(labels, 1.0, seed=0)


def test_every_class_keeps_two_labels_for_training():
    train, held = hold_out(torch.tensor([0] * 3), 0.9, seed=0)
    assert ((train >= 0).sum(), (held >= 0).sum()) == (2, 1)


def test_roles_in_the_table():
    data = Dataset(
        name="d",
        images=torch.zeros(3, 3, 2, 2, dtype=torch.uint8),
        labels_M=torch.tensor([-1, 2, -1]),
        held_out_M=torch.tensor([0, -1, -1]),
        names=("a", "b", "c"),
        classes=CLASSES,
        test_labels_T=torch.tensor([1]),
        test_names=("t/x.png",),
    )
    assert split_table(data).splitlines()[1:] == [
        "a,cat,validation",
        "b,owl,labelled",
        "c,,unlabelled",
        "t/x.png,dog,test",
    ]
