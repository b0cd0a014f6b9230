"""Advice to the person who labels: which images to label next, and which labels to look at again.

Shapes: N images without a label, M of them that are looked at, L labelled images, F features, Y classes among
the answers, B images at a time.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from semppl.data.dataset import evenly
from semppl.evaluate.bank import TEMPERATURE, Answer, LabelledBank
from semppl.nets.heads import unit

_LOOKED_AT: Final = 10_000
# labelled images whose votes say how much an image is in doubt
_VOTERS: Final = 20
# what an image counts for that is in no doubt at all, so that images are chosen where none is
_LEAST_DOUBT: Final = 0.01
# two products of the same vectors differ by less
_ROUNDING: Final = 1e-4
_AT_A_TIME: Final = 256


class Suggestion(NamedTuple):
    """An image that is worth a label."""

    index: int  # type: ignore[assignment]  # the name of a method of tuples, which nobody needs here
    label: int
    """The class that the labelled images vote for."""
    share: float
    cosine: float
    """To the nearest labelled image."""
    stands_for: float
    """Share of the images that are nearer to it than to any label and to those chosen before it."""

    @property
    def reason(self) -> str:
        """In words."""
        if not self.stands_for:
            return "like one with a label"
        percent = 100 * self.stands_for
        amount = f"{percent:.{0 if percent >= 10 else 1}f}" if percent >= 0.1 else "less than 0.1"
        return f"stands for {amount} % of the images"


class Suspicion(NamedTuple):
    """A label that the other labels contradict."""

    index: int  # type: ignore[assignment]  # as above
    given: int
    voted: int
    share: float


def label_next(answer: Answer, features_NF: Tensor, bank: LabelledBank, *, count: int) -> list[Suggestion]:
    """At most `count` different images, the same number of each predicted class while it has any; the most
    useful of a class first.

    Useful is a label that is near to many images in doubt which are far from other labels. An image is in
    doubt by the share of its 20 nearest labels' votes that are against their winner, and a little in any
    case; a label covers it by exp((cosine − 1) / T), the weight of a vote. Chosen is, again and again, what
    adds most to the sum over images of doubt × best cover. Measured beside other rules: docs/fit-measured.md.

    At most 10,000 images are looked at, spread over all, and none whose features are not finite.
    """
    if len(answer.labels_N) != len(features_NF):
        raise ValueError(f"{len(features_NF)} features do not fit {len(answer.labels_N)} answers")
    sound_N = features_NF.isfinite().all(1).cpu().nonzero().squeeze(1)
    if not len(sound_N) or count < 1:
        return []
    looked_M = evenly(sound_N, max(_LOOKED_AT, count))
    vectors_MF = unit(features_NF[looked_M.to(features_NF.device)].to(bank.features_LF.device))
    answer = Answer(*(part.cpu()[looked_M] for part in answer))
    _, classes_M = answer.labels_N.unique(return_inverse=True)
    return [
        Suggestion(
            int(looked_M[pick]),
            int(answer.labels_N[pick]),
            float(answer.share_N[pick]),
            float(answer.cosine_NK[pick, 0]),
            stands_for / len(looked_M),
        )
        for pick, stands_for in _in_turn(Coverage(vectors_MF, bank), classes_M, min(count, len(looked_M)))
    ]


@final
class Coverage:
    """How well images in doubt are covered by labels, and what one more label would add."""

    def __init__(self, vectors_MF: Tensor, bank: LabelledBank) -> None:
        """`vectors_MF` are of unit length, on the device of the bank."""
        votes = replace(bank, k=min(_VOTERS, len(bank.labels_L))).ask(vectors_MF)
        self._vectors_MF = vectors_MF
        self._cover_M = _cover(votes.cosine_NK[:, 0])
        self._doubt_M = 1 - votes.share_N + _LEAST_DOUBT

    def gains(self, index_B: Tensor) -> Tensor:
        """What a label of each would add, by itself."""
        return torch.cat([self._gains(part) for part in index_B.split(_AT_A_TIME)]).cpu()

    def _gains(self, index_B: Tensor) -> Tensor:
        return (self._cover_by(index_B) - self._cover_M).clamp(min=0) @ self._doubt_M

    def _cover_by(self, index_B: Tensor) -> Tensor:
        return _cover(self._vectors_MF[index_B.to(self._vectors_MF.device)] @ self._vectors_MF.T)

    def add_(self, index: int) -> int:
        """Label this one; gives how many images are nearer to it than to whatever was labelled before."""
        mine_M = self._cover_by(torch.tensor([index]))[0]
        nearer_M = mine_M > self._cover_M + _ROUNDING
        self._cover_M = self._cover_M.maximum(mine_M)
        return int(nearer_M.sum())


def _cover(cosine: Tensor) -> Tensor:
    return ((cosine - 1) / TEMPERATURE).exp()


def _in_turn(coverage: Coverage, classes_M: Tensor, count: int) -> Iterator[tuple[int, int]]:
    """Of the classes with the fewest choices, the image that adds most, and how many it stands for.

    What an image adds can only become less as others are added. So a gain computed earlier is a bound, and
    only images whose bound is above the best known gain are computed again.
    """
    bound_M = coverage.gains(torch.arange(len(classes_M)))
    left_Y = torch.bincount(classes_M)
    chosen_Y = torch.zeros_like(left_Y)
    for _ in range(count):
        turn_Y = (left_Y > 0) & (chosen_Y == chosen_Y[left_Y > 0].min())
        # −1 for what is taken or not its turn
        gain_M = bound_M.masked_fill(~turn_Y[classes_M], -1)
        known_M = gain_M < 0
        while not known_M[pick := int(gain_M.argmax())]:
            again_B = gain_M.masked_fill(known_M, -1).topk(min(_AT_A_TIME, int((~known_M).sum()))).indices
            gain_M[again_B] = bound_M[again_B] = coverage.gains(again_B)
            known_M[again_B] = True
        bound_M[pick] = -1
        label = classes_M[pick]
        chosen_Y[label] += 1
        left_Y[label] -= 1
        yield pick, coverage.add_(pick)


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
