import pytest
import torch

from semppl.core.errors import UserError
from semppl.data.wnids import imagenet_indices, imagenet_r_indices, wnid_index


def test_the_thousand_classes_are_numbered_in_the_order_of_their_names():
    index = wnid_index()
    assert len(index) == 1000
    assert list(index) == sorted(index)
    assert list(index.values()) == list(range(1000))
    # tench, goldfish, toilet tissue
    assert (index["n01440764"], index["n01443537"], index["n15075141"]) == (0, 1, 999)


def test_imagenet_r_shows_two_hundred_of_them():
    indices = imagenet_r_indices()
    assert len(set(indices)) == 200
    assert list(indices) == sorted(indices)
    # the ends and the sum of the list in the authors' evaluation
    assert (indices[:5], indices[-5:]) == ((1, 2, 4, 6, 8), (967, 980, 981, 983, 988))
    assert sum(indices) == 86_135


def test_a_classifier_of_some_classes_in_any_order_is_understood():
    found = imagenet_indices(("n15075141", "n01440764", "n01443537"))
    assert found.dtype == torch.int64
    assert found.tolist() == [999, 0, 1]
    assert imagenet_indices(tuple(wnid_index())).tolist() == list(range(1000))


def test_words_of_torchvisions_imagenet_are_understood_too():
    words = ("tench, Tinca tinca", "crane (134)", "crane (517)", "maillot, tank suit")
    assert imagenet_indices(words).tolist() == [0, 134, 517, 639]


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (("cat", "dog"), "'cat', 'dog': use"),
        (("a", "b", "c", "d"), "'a', 'b', 'c', …: use"),
        (("n01440764", "n00000001"), "classes are 'n00000001': use"),
    ],
)
def test_other_classes_are_refused_in_one_line(classes, named):
    with pytest.raises(UserError, match="robustness sets need a classifier of ImageNet's classes") as caught:
        imagenet_indices(classes)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
