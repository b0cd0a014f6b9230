"""The objectives: ReLICv2, SimCLR and BYOL, each with semantic positives or without.

Shapes: A = V + S anchor views (V large, then S small), P positives, B images, N negatives, D dims.
All embeddings are unit vectors in float32. Averages run over view pairs and over all B images: an image for
which no semantic positive was found contributes 0 and still counts.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import torch
from torch import Tensor

from semppl.method.invariance import (
    SemanticPartner,
    SmallPartner,
    StopGradient,
    augmentation_partner,
    log_distribution,
    penalty,
    semantic_partner,
)
from semppl.method.losses import contrastive, entry_logits, log_sum, negative_logits, pair_logits
from semppl.method.positives import Positives, weight_of


class Terms(NamedTuple):
    """The total and its parts, unweighed; a part that an objective does not have is 0."""

    total: Tensor
    augmentation: Tensor
    """L_augm, eq. 1."""
    semantic: Tensor
    """L_sempos, eq. 3, summed over the P positives."""
    invariance_augmentation: Tensor
    invariance_semantic: Tensor
    """Summed over the P positives, too."""


class Objective(Protocol):
    """What a training step asks for."""

    def __call__(
        self,
        online_ABD: Tensor,
        target_VBD: Tensor,
        positives: Positives | None = None,
        negatives_BN: Tensor | None = None,
        small_target_SBD: Tensor | None = None,
    ) -> Terms:
        """The terms of one batch; without `negatives_BN` all other images are negatives."""


@final
@dataclass(frozen=True, kw_only=True)
class ReLICv2:
    """{c (L_augm + α L_sempos) + λ (I_augm + I_sempos)} / (1 + P).

    The invariance penalty is between different views: i = j is left out. Two embeddings that it asks for do
    not exist, so something stands in for them.

    `semantic_partner`, the second distribution of I_sempos for anchor view i and queue entry z of view j:
      standin   z against the target projections of view i (of a small i: its detached predictions)
      store     the stored online prediction of the entry against the same
      swap      z against the online predictions of view i
      lockstep  the prediction of view j against the same slot of queue i (mirrored draws; large i only)
      none      no I_sempos
    `small_partner`, the second distribution of I_augm for a small anchor: the prediction of the large view
    against the small view's detached predictions ("standin") or target projections ("run_target"), or none.

    α = 0 leaves out I_sempos and the division too: it is ReLICv2 without semantic positives.
    """

    temperature: float = 0.2
    contrast_scale: float = 0.3
    invariance_scale: float = 5.0
    alpha: float = 0.2
    stop_gradient: StopGradient = "entropy_only"
    semantic_partner: SemanticPartner = "standin"
    small_partner: SmallPartner = "standin"
    same_view: bool = True
    divide_by_positives: bool = True

    def __post_init__(self) -> None:
        if self.stop_gradient == "teacher" and self.semantic_partner in ("standin", "store"):
            raise ValueError(
                f"stop_gradient 'teacher' with semantic_partner {self.semantic_partner!r} leaves the "
                "semantic penalty without a gradient: choose 'swap', 'lockstep' or 'none'"
            )

    def __call__(
        self,
        online_ABD: Tensor,
        target_VBD: Tensor,
        positives: Positives | None = None,
        negatives_BN: Tensor | None = None,
        small_target_SBD: Tensor | None = None,
    ) -> Terms:
        """See the class and `Objective`."""
        if negatives_BN is None:
            negatives_BN = other_images(online_ABD)
        large_VBD, small_SBD = online_ABD.split([len(target_VBD), len(online_ABD) - len(target_VBD)])
        small_keys_SBD = small_SBD.detach()
        if self.small_partner == "run_target" and len(small_SBD):
            if small_target_SBD is None:
                raise ValueError("small_partner 'run_target' needs the target projections of the small views")
            small_keys_SBD = small_target_SBD

        positive_AVB = pair_logits(online_ABD, target_VBD, self.temperature)
        negative_AVBN = negative_logits(online_ABD, target_VBD, negatives_BN, self.temperature)
        counted_AV = counted_pairs(online_ABD, target_VBD, same_view=self.same_view)
        loss_AVB = contrastive(positive_AVB, log_sum(negative_AVBN))
        augmentation = average(loss_AVB, counted_AV)
        semantic = invariance_augmentation = invariance_semantic = torch.zeros_like(augmentation)

        if self.invariance_scale:
            log_p_AVBX = log_distribution(positive_AVB, negative_AVBN)
            keys = None if self.small_partner == "none" else small_keys_SBD
            partner = augmentation_partner(log_p_AVBX, large_VBD, keys, negatives_BN, self.temperature)
            invariance_augmentation = penalty(log_p_AVBX, partner, self.stop_gradient).mean()

        num_positives = 0
        if positives is not None and self.alpha:
            num_positives = positives.embeddings_AVPBD.shape[2]
            positive_AVPB = entry_logits(online_ABD, positives.embeddings_AVPBD, self.temperature)
            negative_AV1BN = negative_AVBN[:, :, None]
            loss_AVPB = contrastive(positive_AVPB, log_sum(negative_AV1BN)) * weight_of(positives)
            semantic = average(loss_AVPB.sum(2), counted_AV)
            if self.invariance_scale and self.semantic_partner != "none":
                log_p_AVPBX = log_distribution(positive_AVPB, negative_AV1BN)
                swapped = self.semantic_partner == "swap"
                own_ABD = online_ABD if swapped else torch.cat([target_VBD, small_keys_SBD])
                partner = semantic_partner(
                    log_p_AVPBX, positives, own_ABD, negatives_BN, self.temperature, self.semantic_partner
                )
                loss_AVPB = penalty(log_p_AVPBX, partner, self.stop_gradient) * weight_of(positives)
                invariance_semantic = loss_AVPB.sum(2).mean()

        total = self.contrast_scale * (augmentation + self.alpha * semantic)
        total = total + self.invariance_scale * (invariance_augmentation + invariance_semantic)
        if self.divide_by_positives:
            total = total / (1 + num_positives)
        return Terms(total, augmentation, semantic, invariance_augmentation, invariance_semantic)


@final
@dataclass(frozen=True, kw_only=True)
class SimCLR:
    """{L_augm + α L_sempos} / (1 + P): contrast alone. With one network, `target_VBD` carries gradients.

    Without `negatives_BN` this is NT-Xent: all other images in both views of the pair are negatives.
    """

    temperature: float = 0.2
    alpha: float = 0.2
    same_view: bool = False
    divide_by_positives: bool = True

    def __call__(
        self,
        online_ABD: Tensor,
        target_VBD: Tensor,
        positives: Positives | None = None,
        negatives_BN: Tensor | None = None,
        small_target_SBD: Tensor | None = None,
    ) -> Terms:
        """See the class and `Objective`."""
        if negatives_BN is not None:
            logits_AVBN = negative_logits(online_ABD, target_VBD, negatives_BN, self.temperature)
            rest_AVB = log_sum(logits_AVBN)
        else:
            small_SBD = online_ABD[len(target_VBD) :] if small_target_SBD is None else small_target_SBD
            own_ABD = torch.cat([target_VBD, small_SBD])
            itself_BB = torch.eye(online_ABD.shape[1], dtype=torch.bool, device=online_ABD.device)
            across_AVBB = torch.einsum("abd,vnd->avbn", online_ABD, target_VBD) / self.temperature
            within_ABB = torch.einsum("abd,and->abn", online_ABD, own_ABD) / self.temperature
            rest_AVB = torch.logaddexp(
                log_sum(across_AVBB.masked_fill(itself_BB, -1e4)),
                log_sum(within_ABB.masked_fill(itself_BB, -1e4))[:, None],
            )
        loss_AVB = contrastive(pair_logits(online_ABD, target_VBD, self.temperature), rest_AVB)
        loss_AVPB = None
        if positives is not None:
            positive_AVPB = entry_logits(online_ABD, positives.embeddings_AVPBD, self.temperature)
            loss_AVPB = contrastive(positive_AVPB, rest_AVB[:, :, None]) * weight_of(positives)
        counted_AV = counted_pairs(online_ABD, target_VBD, same_view=self.same_view)
        return two_terms(loss_AVB, loss_AVPB, counted_AV, self.alpha, divide=self.divide_by_positives)


@final
@dataclass(frozen=True, kw_only=True)
class BYOL:
    """{L_augm + α L_sempos} / (1 + P) with both losses the squared distance 2 − 2 cos; no negatives."""

    alpha: float = 0.2
    same_view: bool = False
    divide_by_positives: bool = True

    def __call__(
        self,
        online_ABD: Tensor,
        target_VBD: Tensor,
        positives: Positives | None = None,
        negatives_BN: Tensor | None = None,  # noqa: ARG002 - an objective without negatives
        small_target_SBD: Tensor | None = None,  # noqa: ARG002
    ) -> Terms:
        """See the class and `Objective`."""
        loss_AVB = 2 - 2 * pair_logits(online_ABD, target_VBD, temperature=1.0)
        loss_AVPB = None
        if positives is not None:
            cosine_AVPB = entry_logits(online_ABD, positives.embeddings_AVPBD, temperature=1.0)
            loss_AVPB = (2 - 2 * cosine_AVPB) * weight_of(positives)
        counted_AV = counted_pairs(online_ABD, target_VBD, same_view=self.same_view)
        return two_terms(loss_AVB, loss_AVPB, counted_AV, self.alpha, divide=self.divide_by_positives)


def two_terms(
    loss_AVB: Tensor, loss_AVPB: Tensor | None, counted_AV: Tensor, alpha: float, *, divide: bool
) -> Terms:
    """The terms of an objective without invariance penalty."""
    augmentation = average(loss_AVB, counted_AV)
    zero = torch.zeros_like(augmentation)
    num_positives, semantic = 0, zero
    if loss_AVPB is not None and alpha:
        num_positives, semantic = loss_AVPB.shape[2], average(loss_AVPB.sum(2), counted_AV)
    total = (augmentation + alpha * semantic) / (1 + num_positives if divide else 1)
    return Terms(total, augmentation, semantic, zero, zero)


def counted_pairs(online_ABD: Tensor, target_VBD: Tensor, *, same_view: bool) -> Tensor:
    """Which (anchor view, target view) pairs the averages run over."""
    counted_AV = torch.ones(len(online_ABD), len(target_VBD), dtype=torch.bool, device=online_ABD.device)
    if same_view:
        return counted_AV
    if counted_AV.numel() == 1:
        raise ValueError("one view alone has no other view to be compared with")
    return counted_AV & ~torch.eye(*counted_AV.shape, dtype=torch.bool, device=online_ABD.device)


def average(loss_AVB: Tensor, counted_AV: Tensor) -> Tensor:
    """Mean over the counted pairs and over all images."""
    weight_AV = counted_AV.to(loss_AVB) / counted_AV.sum()
    return (loss_AVB.mean(2) * weight_AV).sum()


def other_images(online_ABD: Tensor) -> Tensor:
    """All other images of the batch as negatives: [B, B − 1]."""
    num_images = online_ABD.shape[1]
    index_BN = torch.arange(num_images - 1, device=online_ABD.device).expand(num_images, -1)
    return index_BN + (index_BN >= torch.arange(num_images, device=online_ABD.device)[:, None])
