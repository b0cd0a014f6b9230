"""Contrastive and squared-distance terms of one positive (paper, eq. 1 and 3).

Shapes: A anchor views, V target views, P positives, B images, N negatives, D dims.
φ(a, b) = τ exp(⟨a, b⟩/τ): its leading τ cancels in every ratio, so a term is a softmax of ⟨a, b⟩/τ.
"""

from typing import Final

import torch
from torch import Tensor

# so many products cost no more than to gather one key of 128 numbers and more, on one core and on two
_PAIRS_PER_NEGATIVE: Final = 64


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
    if all_pairs_pay(len(anchors_ABD), keys_VBD, negatives_BN):
        cosines_AVBB = torch.einsum("abd,vcd->avbc", anchors_ABD, keys_VBD)
        return of_negatives(cosines_AVBB, negatives_BN) / temperature
    return torch.einsum("abd,vbnd->avbn", anchors_ABD, keys_VBD[:, negatives_BN]) / temperature


def entry_negative_logits(
    entries_AVPBD: Tensor, keys_ABD: Tensor, negatives_BN: Tensor, temperature: float
) -> Tensor:
    """⟨queue entry drawn for an anchor, key of each of its negatives⟩/τ: [A, V, P, B, N]."""
    _, num_views, num_positives, _, _ = entries_AVPBD.shape
    if all_pairs_pay(num_views * num_positives, keys_ABD, negatives_BN):
        cosines_AVPBB = torch.einsum("avpbd,acd->avpbc", entries_AVPBD, keys_ABD)
        return of_negatives(cosines_AVPBB, negatives_BN) / temperature
    return torch.einsum("avpbd,abnd->avpbn", entries_AVPBD, keys_ABD[:, negatives_BN]) / temperature


def all_pairs_pay(vectors: int, keys_VBD: Tensor, negatives_BN: Tensor) -> bool:
    """Whether it is quicker to multiply so many vectors of each image with the keys of all images, and to
    choose, than to gather the keys of its negatives, and no more numbers (docs/performance.md has where).

    On a GPU it has not been measured, and is not done.
    """
    num_images, dim = keys_VBD.shape[1:]
    quicker = vectors * num_images <= negatives_BN.shape[1] * min(dim, _PAIRS_PER_NEGATIVE)
    return quicker and keys_VBD.device.type == "cpu"


def of_negatives(pairs_XBB: Tensor, negatives_BN: Tensor) -> Tensor:
    """Those of all pairs of images that are pairs of an image and its negatives: [..., B, N]."""
    return pairs_XBB.gather(-1, negatives_BN.expand(*pairs_XBB.shape[:-2], -1, -1))


def log_sum(logits_N: Tensor) -> Tensor:
    """log Σ exp over the last axis; without negatives a number far below any logit, not −inf."""
    if logits_N.shape[-1] == 0:
        return logits_N.new_full(logits_N.shape[:-1], -1e4)
    return logits_N.logsumexp(-1)


def contrastive(positive_logits: Tensor, negatives_log_sum: Tensor) -> Tensor:
    """−log softmax([positive, negatives])[0] from the positive's logit and `log_sum` of the negatives'."""
    return torch.logaddexp(positive_logits, negatives_log_sum) - positive_logits
