"""The labelled images as a memory that votes on others, and how far its votes can be trusted.

Shapes: N images asked about, L labelled images, F features, Y classes, K neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit

TEMPERATURE: Final = 0.1
NEIGHBOURS: Final = 10
THRESHOLDS: Final = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

# images asked about at a time: together with the chunks of `nearest`, memory does not grow with N
_ASKED: Final = 4096


class Answer(NamedTuple):
    """What the nearest labelled images say; UNLABELLED with share 0 where there is none."""

    labels_N: Tensor
    """The class with the largest sum of exp(cosine / 0.1), of several the lowest."""
    share_N: Tensor
    """Its share of that sum over all classes: 1 if all neighbours agree."""
    near_NK: Tensor
    """Positions of the neighbours among the labelled images, nearest first."""
    cosine_NK: Tensor


@final
@dataclass(frozen=True)
class LabelledBank:
    """Features and labels of the labelled images; `build_bank` checks and prepares them."""

    features_LF: Tensor
    """Of unit length, float32."""
    labels_L: Tensor
    classes: int
    k: int

    @property
    def asked_L(self) -> Tensor:
        """Whether another image has the same label: only then can the others know an image's class."""
        return torch.bincount(self.labels_L)[self.labels_L] > 1

    def ask(self, features_NF: Tensor) -> Answer:
        """Let the k nearest labelled images vote on each image; the answer lies where the bank does."""
        return _joined([self._vote(*self._nearest(part, self.k)) for part in features_NF.split(_ASKED)])

    def leave_one_out(self) -> Answer:
        """Let the other labelled images vote on each labelled image; see `asked_L`."""
        k = min(self.k, len(self.labels_L) - 1)
        answers = []
        for own_N in torch.arange(len(self.labels_L), device=self.labels_L.device).split(_ASKED):
            cosine, near = self._nearest(self.features_LF[own_N], k + 1)
            # among copies an image need not come first, nor be found at all: then any of them may go
            dropped = (near == own_N[:, None]).int().argmax(1)
            kept = torch.arange(k + 1, device=near.device) != dropped[:, None]
            answers.append(self._vote(cosine[kept].view(len(own_N), k), near[kept].view(len(own_N), k)))
        return _joined(answers)

    def _nearest(self, features_NF: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Cosines and positions of the k nearest labelled images."""
        queries_NF = unit(features_NF.to(self.features_LF.device))
        slots_L = torch.arange(len(self.labels_L), device=self.labels_L.device)
        cosine_NK, near_NK = nearest(queries_NF, self.features_LF, slots_L, k)
        return cosine_NK.clamp(-1, 1), near_NK

    def _vote(self, cosine_NK: Tensor, near_NK: Tensor) -> Answer:
        # in float64, so that the shares of neighbours who agree add up to 1 in float32
        weight_NK = torch.softmax(cosine_NK.double() / TEMPERATURE, dim=1)
        score_NY = weight_NK.new_zeros(len(near_NK), self.classes)
        share_N, labels_N = score_NY.scatter_add_(1, self.labels_L[near_NK], weight_NK).max(1)
        return Answer(labels_N.where(share_N > 0, UNLABELLED), share_N.float(), near_NK, cosine_NK)


def _joined(answers: Sequence[Answer]) -> Answer:
    return Answer(*(torch.cat(parts) for parts in zip(*answers, strict=True)))


def build_bank(features_LF: Tensor, labels_L: Tensor, classes: int, k: int = NEIGHBOURS) -> LabelledBank:
    """A bank whose k fits its labels: see `fitting_k`."""
    if features_LF.ndim != 2 or len(features_LF) != len(labels_L) or not len(labels_L):
        raise ValueError(f"{tuple(features_LF.shape)} features do not fit {len(labels_L)} labels")
    if not 0 <= int(labels_L.min()) <= int(labels_L.max()) < classes:
        raise ValueError(f"labels must be from 0 to {classes - 1}, but are {labels_L.unique().tolist()}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    k = fitting_k(labels_L, k)
    return LabelledBank(unit(features_LF.detach()), labels_L.to(features_LF.device).long(), classes, k)


def fitting_k(labels_L: Tensor, k: int = NEIGHBOURS) -> int:
    """At most k neighbours, at most L, and at most 2n − 1 for n labels of the smallest class.

    More neighbours than that outnumber a class even where all its images are the nearest. A class with a
    single image does not bind the others (it wins where it is much nearer than they are), unless all are so:
    one label for each class gives k = 1, two give 3, five give 9.
    """
    sizes_Y = torch.bincount(labels_L)
    several = sizes_Y[sizes_Y > 1]
    smallest = int(several.min()) if len(several) else 1
    return min(k, len(labels_L), 2 * smallest - 1)


class ShareTrust(NamedTuple):
    """Answers whose share is at least the threshold."""

    threshold: float
    precision: float
    """Right among those; nan if there are none."""
    coverage: float
    """Those, of all images."""
    count: int  # type: ignore[assignment]  # the name of a method of tuples, which nobody needs here


def precision_by_share(
    answer: Answer, truth_N: Tensor, thresholds: Sequence[float] = THRESHOLDS
) -> list[ShareTrust]:
    """One line for each threshold; images whose truth is UNLABELLED are left out of everything."""
    truth_N = truth_N.to(answer.labels_N.device)
    known_N = truth_N != UNLABELLED
    right, share = (answer.labels_N == truth_N)[known_N], answer.share_N[known_N]
    lines = []
    for threshold in thresholds:
        trusted = share >= threshold
        count = int(trusted.sum())
        precision = int(right[trusted].sum()) / count if count else float("nan")
        lines.append(ShareTrust(threshold, precision, count / max(len(share), 1), count))
    return lines
