import torch
from sklearn.datasets import load_digits as sklearn_digits

from semppl.data.digits import NUM_TEST, load_digits


def test_digits_are_divided_into_training_and_test_without_overlap_or_loss():
    data = load_digits()
    assert data.test_images is not None
    assert data.test_labels_T is not None
    assert len(data.labels_M) == 1797 - NUM_TEST
    together = torch.cat([data.images, data.test_images])[:, 0].flatten(1)
    original = torch.from_numpy(sklearn_digits().images * 255 / 16).round().to(torch.uint8).flatten(1)
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, original.tolist()))
    index = [int(name.split(":")[1]) for name in data.names]
    assert torch.equal(data.images[:, 0].flatten(1), original[index])
    assert torch.equal(data.labels_M, torch.from_numpy(sklearn_digits().target)[index])


def test_every_digit_is_tested():
    labels = load_digits().test_labels_T
    assert labels is not None
    assert torch.bincount(labels).min() >= 25
