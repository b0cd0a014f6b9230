"""scikit-learn's handwritten digits: 1,797 grey images of 8 px that ship with the package."""

import torch

from semppl.core.rng import generator
from semppl.data.dataset import Dataset

NUM_TEST = 360


def load_digits() -> Dataset:
    """1,437 images for training with all labels and always the same 360 for testing."""
    # here, because it takes a second, which all other data would pay
    from sklearn.datasets import load_digits as sklearn_digits  # noqa: PLC0415

    bunch = sklearn_digits()
    grey_MHW = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)
    images_M3HW = grey_MHW[:, None].expand(-1, 3, -1, -1).contiguous()
    labels_M = torch.from_numpy(bunch.target).long()
    order_M = torch.randperm(len(labels_M), generator=generator(0, "digits/test"))
    test, train = order_M[:NUM_TEST].sort().values, order_M[NUM_TEST:].sort().values
    return Dataset(
        name="digits",
        images=images_M3HW[train],
        labels_M=labels_M[train],
        names=tuple(f"digits:{i}" for i in train.tolist()),
        classes=tuple(str(i) for i in range(10)),
        test_images=images_M3HW[test],
        test_labels_T=labels_M[test],
    )
