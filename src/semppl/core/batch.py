"""What the feed hands to a step. Shapes: B images, C channels, s side of a view."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: uint8 crops [B,C,s,s] in the order of the anchors, large views first.

    Where several processes share a batch, each has the crops of its own rows, and all know the whole batch's
    labels and indices.
    """

    crops: tuple[Tensor, ...]
    labels_B: Tensor
    """UNLABELLED where there is no label or it is withheld."""
    index_B: Tensor
    oracle_B: Tensor | None = None
    """True labels of all images; only the oracle ablation has them."""
