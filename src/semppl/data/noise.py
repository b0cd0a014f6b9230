"""Random images, to try a step with. Shapes: M images."""

import torch

from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset


def random_dataset(num_images: int, side: int, classes: int, seed: int) -> Dataset:
    """A tenth of them labelled, and at least one with a label and one without: as costly as photographs once
    they are decoded.
    """
    rng = torch.Generator().manual_seed(seed)
    truth_M = torch.randint(classes, (num_images,), generator=rng)
    labels_M = truth_M.where(torch.rand(num_images, generator=rng) < 0.1, UNLABELLED)
    labels_M[0], labels_M[1] = truth_M[0], UNLABELLED
    return Dataset(
        name="random images",
        images=torch.randint(256, (num_images, 3, side, side), generator=rng, dtype=torch.uint8),
        labels_M=labels_M,
        names=tuple(map(str, range(num_images))),
        classes=tuple(map(str, range(classes))),
        oracle_M=truth_M,
    )
