"""Which images a step sees: a function of the seed and the step, so resuming needs no position.

Shapes: M images of the set, B images of a batch, E images of a stream.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
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
    return _drawn(num_images, seed, name, epoch)


def _drawn(count: int, seed: int, name: str, epoch: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, f"order/{name}", epoch))


@final
@dataclass(frozen=True)
class Mixture:
    """How many labelled images a batch has, and which; by default all images are alike, as in the paper."""

    labelled_fraction: float | None = None
    """A fixed share; None: whatever shuffling gives, or that of the data where labels are balanced."""
    balanced: bool = False
    """All classes come equally often, however many labels they have."""


NATURAL: Final = Mixture()


@final
class Order:
    """step → the images of its batch [B]; with a mixture, labelled and unlabelled images have streams of
    their own, and labelled ones come first.
    """

    def __init__(self, labels_M: Tensor, *, batch_size: int, seed: int, mixture: Mixture = NATURAL) -> None:
        labelled_M = labels_M != UNLABELLED
        self._num_images, self._batch_size, self._seed = len(labels_M), batch_size, seed
        self._labelled_E, self._unlabelled_E = (m.nonzero().squeeze(1) for m in (labelled_M, ~labelled_M))
        self._natural = mixture == NATURAL
        self._num_labelled = self._share(mixture.labelled_fraction)
        self._balanced = _Rounds(labels_M, seed) if mixture.balanced else None

    def __call__(self, step: int) -> Tensor:
        """The same step always gives the same images."""
        if self._natural:
            return stream_indices(step, self._batch_size, self._num_images, self._seed, "all")
        labelled, unlabelled = self._num_labelled, self._batch_size - self._num_labelled
        parts = []
        if labelled and self._balanced is not None:
            parts.append(self._balanced(step, labelled))
        elif labelled:
            parts.append(self._some(step, labelled, self._labelled_E, "labelled"))
        if unlabelled:
            parts.append(self._some(step, unlabelled, self._unlabelled_E, "unlabelled"))
        return torch.cat(parts)

    def _some(self, step: int, count: int, members_E: Tensor, name: str) -> Tensor:
        return members_E[stream_indices(step, count, len(members_E), self._seed, name)]

    def _share(self, fraction: float | None) -> int:
        """Labelled images of a batch: at least one of each kind, if the data has both."""
        if fraction is None:
            fraction = len(self._labelled_E) / self._num_images
        wanted = round(fraction * self._batch_size)
        both = len(self._labelled_E) and len(self._unlabelled_E)
        return min(max(wanted, 1), self._batch_size - 1) if both else wanted


@final
class _Rounds:
    """Labelled images of an endless stream that deals the classes in rounds, in an order drawn anew each.

    A round has every class once, so in round r each class shows image r of a stream of its own.
    """

    def __init__(self, labels_M: Tensor, seed: int) -> None:
        labels_E, members_E = labels_M.sort(stable=True)
        classes, counts = labels_E.unique_consecutive(return_counts=True)
        members = dict(zip(classes.tolist(), members_E.split(counts.tolist()), strict=True))
        members.pop(UNLABELLED, None)
        self._classes = _Epochs(list(members), seed, "classes")
        self._images = {each: _Epochs(own.tolist(), seed, f"class/{each}") for each, own in members.items()}

    def __call__(self, step: int, count: int) -> Tensor:
        positions = range(step * count, (step + 1) * count)
        size = len(self._images)
        return torch.tensor([self._images[self._classes[at]][at // size] for at in positions])


@final
class _Epochs:
    """The stream of `stream_indices` for few things and single positions.

    It keeps the epoch that was asked for last; there are too many classes for a cache that all share.
    """

    def __init__(self, things: list[int], seed: int, name: str) -> None:
        self._things, self._seed, self._name = things, seed, name
        self._last: tuple[int, list[int]] = (-1, [])

    def __getitem__(self, position: int) -> int:
        epoch, place = divmod(position, len(self._things))
        last = self._last
        if last[0] != epoch:
            last = self._last = epoch, _drawn(len(self._things), self._seed, self._name, epoch).tolist()
        return self._things[last[1][place]]
