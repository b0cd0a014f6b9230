import torch

from semppl.core.labels import UNLABELLED
from semppl.data.noise import random_dataset


def test_about_a_tenth_of_random_images_is_labelled_with_the_truth():
    data = random_dataset(2000, 4, 5, seed=0)
    known = data.labels_M != UNLABELLED
    assert 150 < known.sum() < 250
    assert torch.equal(data.labels_M[known], data.oracle_M[known])
    assert set(data.oracle_M.tolist()) == set(range(5))
    assert data.images.shape == (2000, 3, 4, 4)


def test_the_same_seed_gives_the_same_images():
    one, other, another = (random_dataset(20, 4, 5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.images, other.images)
    assert torch.equal(one.labels_M, other.labels_M)
    assert not torch.equal(one.images, another.images)


def test_even_two_images_are_of_both_kinds():
    for seed in range(20):
        data = random_dataset(2, 4, 5, seed)
        assert (data.labels_M != UNLABELLED).tolist() == [True, False]
