"""What the feed hands to a step. Shapes: B images, C channels, s side of a view."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One global batch: uint8 crops [B,C,s,s] in the order of the anchors, large views first."""

    crops: tuple[Tensor, ...]
    labels_B: Tensor
    """UNLABELLED where there is no label or it is withheld."""
    index_B: Tensor
    oracle_B: Tensor | None = None
    """True labels of all images; only the oracle ablation has them."""
