"""The invariance penalty (paper, appendix "Invariance regularization").

Shapes: A = V + S anchor views, V target views, P positives, B images, N negatives, D dims, X = 1 + N.
Both distributions of a divergence run over the same categories: the image's positive and its N negatives.
"""

from typing import Literal

import torch
from torch import Tensor

from semppl.method.losses import entry_logits, entry_negative_logits, negative_logits, pair_logits
from semppl.method.positives import Positives

StopGradient = Literal["entropy_only", "teacher", "none"]
SemanticPartner = Literal["standin", "lockstep", "store", "swap", "none"]
SmallPartner = Literal["standin", "run_target", "none"]


def log_distribution(positive_logits: Tensor, logits_N: Tensor) -> Tensor:
    """log p(anchor; positive) over {positive, negatives}: [..., X]."""
    logits_N = logits_N.expand(*positive_logits.shape, logits_N.shape[-1])
    return torch.cat([positive_logits[..., None], logits_N], dim=-1).log_softmax(-1)


def divergence(log_p_X: Tensor, log_r_X: Tensor, stop_gradient: StopGradient) -> Tensor:
    """KL(p ‖ r) over the last axis; the value is the same in all modes, the gradient is not.

    "entropy_only" stops the entropy of p alone, as the paper writes; "teacher" stops p altogether; "none" is
    the gradient of the KL.
    """
    if stop_gradient == "teacher":
        log_p_X = log_p_X.detach()
    entropy_log_X = log_p_X.detach() if stop_gradient == "entropy_only" else log_p_X
    negative_entropy = (entropy_log_X.exp() * entropy_log_X).sum(-1)
    return negative_entropy - (log_p_X.exp() * log_r_X).sum(-1)


def augmentation_partner(
    log_p_AVBX: Tensor,
    large_VBD: Tensor,
    small_keys_SBD: Tensor | None,
    negatives_BN: Tensor,
    temperature: float,
) -> Tensor:
    """log p(ẑ^{a2}; z̃^{a1}) for I_augm: the large pairs swapped, then, with keys for them, the small anchors.

    A small view has no target projection: the large view's prediction is held against `small_keys_SBD`.
    """
    num_large = len(large_VBD)
    swapped_VVBX = log_p_AVBX[:num_large].transpose(0, 1)
    if small_keys_SBD is None:
        return swapped_VVBX
    log_r_VSBX = log_distribution(
        pair_logits(large_VBD, small_keys_SBD, temperature),
        negative_logits(large_VBD, small_keys_SBD, negatives_BN, temperature),
    )
    return torch.cat([swapped_VVBX, log_r_VSBX.transpose(0, 1)])


def semantic_partner(
    log_p_AVPBX: Tensor,
    positives: Positives,
    own_ABD: Tensor,
    negatives_BN: Tensor,
    temperature: float,
    kind: SemanticPartner,
) -> Tensor:
    """log p(ẑ^{a2,+}; z̃^{a1}) for I_sempos, where the queue entry has no online prediction of now.

    "lockstep" swaps the large pairs, as I_augm does; the others hold the entry ("store": its prediction of
    then) against `own_ABD`, the embeddings of the anchor's view.
    """
    entries_AVPBD = positives.embeddings_AVPBD
    if kind == "lockstep":
        return log_p_AVPBX[: entries_AVPBD.shape[1]].transpose(0, 1)
    if kind == "store":
        if positives.predictions_AVPBD is None:
            raise ValueError("semantic_partner 'store' needs a queue with keep_predictions=True")
        entries_AVPBD = positives.predictions_AVPBD
    return log_distribution(
        entry_logits(own_ABD, entries_AVPBD, temperature),
        entry_negative_logits(entries_AVPBD, own_ABD, negatives_BN, temperature),
    )


def penalty(log_p_AVX: Tensor, log_r_AVX: Tensor, stop_gradient: StopGradient) -> Tensor:
    """Divergence of each (anchor view, target view, …); 0 for i = j and for anchors without a partner."""
    num_anchors, num_partners, num_targets = len(log_p_AVX), len(log_r_AVX), log_p_AVX.shape[1]
    same_AV = torch.eye(num_partners, num_targets, dtype=torch.bool, device=log_p_AVX.device)
    same = same_AV.view(num_partners, num_targets, *[1] * (log_p_AVX.dim() - 3))
    loss = divergence(log_p_AVX[:num_partners], log_r_AVX, stop_gradient).masked_fill(same, 0)
    missing = loss.new_zeros(num_anchors - num_partners, *loss.shape[1:])
    return torch.cat([loss, missing])
