"""k nearest neighbours on frozen features: cosine, weighted by similarity.

Shapes: N images asked about, L labelled images, F features, Y classes.
"""

from typing import Final

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit

# labelled images on the device at a time
_AT_A_TIME: Final = 2**16


def knn_logits(
    features_NF: Tensor,
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    k: int,
    temperature: float = 0.1,
    classes: int,
    device: torch.device | str | None = None,
) -> Tensor:
    """Logarithm, up to a constant for each image, of the sum of exp(cosine / temperature) over those of the k
    nearest labelled images that are of each class: −∞ where none is. Their softmax is the share of the votes.

    Computed on `device`, by default where the features are; labelled ones are moved there a part at a time.
    """
    queries_NF = unit(features_NF.to(device))
    cosine_NK, labels_NK = _nearest_of_parts(queries_NF, labelled_LF, labels_L, min(k, len(labels_L)))
    # relative to the nearest, so that no temperature lets all weights vanish
    nearer_NK = cosine_NK - cosine_NK[:, :1]
    weight_NK = torch.exp(nearer_NK / temperature).masked_fill(labels_NK == UNLABELLED, 0)
    score_NY = weight_NK.new_zeros(len(features_NF), classes)
    return score_NY.scatter_add_(1, labels_NK.clamp(min=0), weight_NK).log()


def _nearest_of_parts(
    queries_NF: Tensor, labelled_LF: Tensor, labels_L: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Cosines and labels of the k nearest, nearest first."""
    device, found = queries_NF.device, list[tuple[Tensor, Tensor]]()
    for keys_lF, labels_l in zip(labelled_LF.split(_AT_A_TIME), labels_L.split(_AT_A_TIME), strict=True):
        found.append(nearest(queries_NF, keys_lF.to(device), labels_l.to(device), min(k, len(labels_l))))
        if len(found) == 2:
            cosine_NJ, labels_NJ = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
            cosine_NJ, place_NJ = cosine_NJ.sort(dim=1, descending=True, stable=True)
            found = [(cosine_NJ[:, :k], labels_NJ.gather(1, place_NJ)[:, :k])]
    return found[0]


def knn_predict(
    features_NF: Tensor,
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    k: int,
    temperature: float = 0.1,
    classes: int,
) -> Tensor:
    """The class with the most votes."""
    votes = knn_logits(features_NF, labelled_LF, labels_L, k=k, temperature=temperature, classes=classes)
    return votes.argmax(1)


def accuracy(predicted_N: Tensor, truth_N: Tensor) -> float:
    """Share of right answers."""
    return float((predicted_N == truth_N).double().mean())
