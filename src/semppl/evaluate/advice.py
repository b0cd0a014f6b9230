"""Advice to the person who labels: which images to label next, and which labels to look at again.

Shapes: N images without a label, L labelled images, F features, Y classes among the answers, M candidates,
P images chosen for low agreement, Q for being far.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from semppl.evaluate.bank import Answer, LabelledBank
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit

Reason = Literal["low agreement", "far from any label"]
LOW: Final[Reason] = "low agreement"
FAR: Final[Reason] = "far from any label"

# images among which uncovered regions are looked for
_CANDIDATES: Final = 20_000


class Suggestion(NamedTuple):
    """An image that is worth a label."""

    index: int  # type: ignore[assignment]  # the name of a method of tuples, which nobody needs here
    label: int
    """The class that the labelled images vote for."""
    share: float
    cosine: float
    """To the nearest labelled image."""
    reason: Reason


class Suspicion(NamedTuple):
    """A label that the other labels contradict."""

    index: int  # type: ignore[assignment]  # as above
    given: int
    voted: int
    share: float


def label_next(
    answer: Answer,
    features_NF: Tensor,
    bank: LabelledBank,
    *,
    count: int,
    uncertainty_N: Tensor | None = None,
) -> list[Suggestion]:
    """At most `count` different images, the same number of each predicted class while it has any.

    The first half has low agreement: the lowest share of the votes, or the largest `uncertainty_N` if it is
    given, and of equals the lowest cosine. The rest lies far from any label: again and again the image with
    the smallest cosine to whatever is labelled or already chosen. Where all neighbours agree there is no
    doubt, so without `uncertainty_N` an image of share 1 is only suggested for being far.
    """
    if len(answer.labels_N) != len(features_NF):
        raise ValueError(f"{len(features_NF)} features do not fit {len(answer.labels_N)} answers")
    total = min(count, len(features_NF))
    if total < 1:
        return []
    answer = Answer(*(part.cpu() for part in answer))
    _, classes_N, sizes_Y = answer.labels_N.unique(return_inverse=True, return_counts=True)
    level = _level(sizes_Y.tolist(), total)
    low_P = _low_agreement(answer, uncertainty_N, classes_N, max(level, 1))[: (total + 1) // 2]
    subset_M = _candidates(classes_N, low_P, max(_CANDIDATES // len(sizes_Y), level + 1))
    far_Q = _farthest_first(features_NF, bank, classes_N, low_P, subset_M, total - len(low_P))
    chosen = torch.cat([low_P, far_Q])
    reasons = [LOW] * len(low_P) + [FAR] * len(far_Q)
    columns = (chosen, answer.labels_N[chosen], answer.share_N[chosen], answer.cosine_NK[chosen, 0])
    return [Suggestion(*row) for row in zip(*(column.tolist() for column in columns), reasons, strict=True)]


def _level(sizes: Sequence[int], total: int) -> int:
    """The most images that every class can give, if it has them, without exceeding the total."""
    return bisect_right(range(total + 1), total, key=lambda level: sum(min(n, level) for n in sizes)) - 1


def _low_agreement(answer: Answer, uncertainty_N: Tensor | None, classes_N: Tensor, most: int) -> Tensor:
    """The most doubtful image of each class, then the second of each, … up to `most` of each."""
    if uncertainty_N is None:
        doubt_N, order = 1 - answer.share_N, (answer.share_N < 1).nonzero().squeeze(1)
    else:
        doubt_N, order = uncertainty_N.cpu(), torch.arange(len(classes_N))
    order = order[answer.cosine_NK[order, 0].argsort(stable=True)]
    order = order[doubt_N[order].argsort(descending=True, stable=True)]
    turn = _rank_in_class(classes_N[order])
    return order[turn.argsort(stable=True)][: int((turn < most).sum())]


def _rank_in_class(classes_N: Tensor) -> Tensor:
    """How many images of the same class come before each."""
    by_class_N = classes_N.argsort(stable=True)
    sizes_Y = torch.bincount(classes_N)
    start_Y = sizes_Y.cumsum(0) - sizes_Y
    rank_N = torch.empty_like(classes_N)
    rank_N[by_class_N] = torch.arange(len(classes_N)) - start_Y[classes_N[by_class_N]]
    return rank_N


def _candidates(classes_N: Tensor, taken_P: Tensor, most: int) -> Tensor:
    """Of each class at most `most` images that are not taken, spread evenly over it; in order."""
    free_N = torch.ones_like(classes_N, dtype=torch.bool)
    free_N[taken_P] = False
    free = free_N.nonzero().squeeze(1)
    classes = classes_N[free]
    rank, size = _rank_in_class(classes), torch.bincount(classes)[classes]
    return free[(rank + 1) * most // size > rank * most // size]


def _farthest_first(
    features_NF: Tensor,
    bank: LabelledBank,
    classes_N: Tensor,
    taken_P: Tensor,
    subset_M: Tensor,
    count: int,
) -> Tensor:
    """Greedy: of the classes with the fewest choices, the image least similar to all that is covered."""
    device = bank.features_LF.device
    vectors_MF = unit(features_NF[subset_M.to(features_NF.device)].to(device))
    taken_PF = unit(features_NF[taken_P.to(features_NF.device)].to(device))
    covered_CF = torch.cat([bank.features_LF, taken_PF])
    cosine_M1, _ = nearest(vectors_MF, covered_CF, torch.arange(len(covered_CF), device=device), 1)
    cosine_M, classes_M = cosine_M1.squeeze(1).cpu(), classes_N[subset_M]
    num_classes = int(classes_N.max()) + 1
    chosen_Y = torch.bincount(classes_N[taken_P], minlength=num_classes)
    left_Y = torch.bincount(classes_M, minlength=num_classes)
    picks = []
    for _ in range(count):
        turn_Y = (left_Y > 0) & (chosen_Y == chosen_Y[left_Y > 0].min())
        pick = int(cosine_M.masked_fill(~turn_Y[classes_M], torch.inf).argmin())
        picks.append(pick)
        label = classes_M[pick]
        chosen_Y[label] += 1
        left_Y[label] -= 1
        cosine_M = cosine_M.maximum((vectors_MF @ vectors_MF[pick]).cpu())
        cosine_M[pick] = torch.inf
    return subset_M[torch.tensor(picks, dtype=torch.long)]


def suspicious(bank: LabelledBank, answer: Answer) -> list[Suspicion]:
    """Labelled images whose nearest others, by `leave_one_out`, vote for another class, largest share first.

    Of equal shares the image with the nearest neighbour comes first. An image alone in its class is not
    accused: the others cannot know its class.
    """
    accused = ((answer.labels_N != bank.labels_L) & bank.asked_L).nonzero().squeeze(1)
    if not len(accused):
        return []
    accused = accused[answer.cosine_NK[accused, 0].argsort(descending=True, stable=True)]
    accused = accused[answer.share_N[accused].argsort(descending=True, stable=True)]
    columns = (accused, bank.labels_L[accused], answer.labels_N[accused], answer.share_N[accused])
    return [Suspicion(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
