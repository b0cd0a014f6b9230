"""Withheld truth: it can be scored against and not read. Shapes: M images of the set, B of a batch."""

from typing import NoReturn, final

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED


@final
class HiddenLabels:
    """Truth of images whose label is withheld from training. Offers agreement; offers no label."""

    __slots__ = ("_truth_M",)

    def __init__(self, truth_M: Tensor) -> None:
        self._truth_M = truth_M.clone()

    def __repr__(self) -> str:
        return f"HiddenLabels(num_images={len(self._truth_M)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("hidden labels are written nowhere")

    def to(self, device: torch.device) -> "HiddenLabels":
        """The same on a device, so that asking there waits for nothing."""
        return HiddenLabels(self._truth_M.to(device))

    def without(self, index_N: Tensor) -> "HiddenLabels":
        """The same, with nothing known of some images."""
        truth_M = self._truth_M.clone()
        truth_M[index_N] = UNLABELLED
        return HiddenLabels(truth_M)

    def agreement(self, index_B: Tensor, guess_B: Tensor, group_B: Tensor, groups: int) -> Tensor:
        """[groups, 2]: right guesses and guesses in each group; group −1 and unknown truth do not count."""
        truth_B = self._truth_M[index_B]
        counted_B = (group_B >= 0) & (truth_B != UNLABELLED)
        table = torch.zeros(groups + 1, 2, dtype=torch.long, device=index_B.device)
        group_B = group_B.where(counted_B, groups)
        pair_B2 = torch.stack([(truth_B == guess_B) & counted_B, counted_B], dim=1).long()
        return table.index_add_(0, group_B, pair_B2)[:groups]
