"""Which images a step sees: a function of the seed and the step, so resuming needs no position.

Shapes: B images of a batch, E images of a stream.
"""

from functools import lru_cache

import torch
from torch import Tensor

from semppl.core.rng import generator


def stream_indices(step: int, count: int, num_images: int, seed: int, name: str) -> Tensor:
    """`count` positions of an endless stream of shuffled epochs; each epoch shows every image once.

    A batch may begin in one epoch and end in the next, so nothing is left out when sizes do not divide; such
    a batch may show an image twice.
    """
    position_B = torch.arange(step * count, (step + 1) * count)
    epoch_B = position_B // num_images
    index_B = torch.empty_like(position_B)
    for epoch in epoch_B.unique().tolist():
        here_B = epoch_B == epoch
        index_B[here_B] = _permutation(num_images, seed, name, epoch)[position_B[here_B] % num_images]
    return index_B


@lru_cache(maxsize=8)
def _permutation(num_images: int, seed: int, name: str, epoch: int) -> Tensor:
    return torch.randperm(num_images, generator=generator(seed, f"order/{name}", epoch))


def batch_indices(
    step: int, batch_size: int, labelled_M: Tensor, seed: int, labelled_fraction: float | None = None
) -> Tensor:
    """Images of a batch: all alike ("natural", as in the paper), or a fixed share of labelled ones.

    `labelled_M` says which images have a label. With a share, labelled and unlabelled images have streams of
    their own.
    """
    if labelled_fraction is None:
        return stream_indices(step, batch_size, len(labelled_M), seed, "all")
    num_labelled = min(max(round(labelled_fraction * batch_size), 1), batch_size - 1)
    parts = []
    for name, members, count in (
        ("labelled", labelled_M.nonzero().squeeze(1), num_labelled),
        ("unlabelled", (~labelled_M).nonzero().squeeze(1), batch_size - num_labelled),
    ):
        parts.append(members[stream_indices(step, count, len(members), seed, name)])
    return torch.cat(parts)
