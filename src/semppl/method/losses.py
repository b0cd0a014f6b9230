"""Contrastive and squared-distance terms of one positive (paper, eq. 1 and 3).

Shapes: A anchor views, V target views, P positives, B images, N negatives, D dims.
φ(a, b) = τ exp(⟨a, b⟩/τ): its leading τ cancels in every ratio, so a term is a softmax of ⟨a, b⟩/τ.
"""

import torch
from torch import Tensor


def pair_logits(anchors_ABD: Tensor, keys_VBD: Tensor, temperature: float) -> Tensor:
    """⟨anchor, key of the same image⟩/τ for every pair of views: [A, V, B]."""
    return torch.einsum("abd,vbd->avb", anchors_ABD, keys_VBD) / temperature


def entry_logits(anchors_ABD: Tensor, entries_AVPBD: Tensor, temperature: float) -> Tensor:
    """⟨anchor, queue entry drawn for it⟩/τ: [A, V, P, B]."""
    return torch.einsum("abd,avpbd->avpb", anchors_ABD, entries_AVPBD) / temperature


def negative_logits(
    anchors_ABD: Tensor, keys_VBD: Tensor, negatives_BN: Tensor, temperature: float
) -> Tensor:
    """⟨anchor, key of each of its negatives⟩/τ for every pair of views: [A, V, B, N]."""
    return torch.einsum("abd,vbnd->avbn", anchors_ABD, keys_VBD[:, negatives_BN]) / temperature


def log_sum(logits_N: Tensor) -> Tensor:
    """log Σ exp over the last axis; without negatives a number far below any logit, not −inf."""
    if logits_N.shape[-1] == 0:
        return logits_N.new_full(logits_N.shape[:-1], -1e4)
    return logits_N.logsumexp(-1)


def contrastive(positive_logits: Tensor, negatives_log_sum: Tensor) -> Tensor:
    """−log softmax([positive, negatives])[0] from the positive's logit and `log_sum` of the negatives'."""
    return torch.logaddexp(positive_logits, negatives_log_sum) - positive_logits
