"""k nearest neighbours on frozen features: cosine, weighted by similarity.

Shapes: N images asked about, L labelled images, F features, Y classes.
"""

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit


def knn_logits(
    features_NF: Tensor,
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    k: int,
    temperature: float = 0.1,
    classes: int,
) -> Tensor:
    """Logarithm, up to a constant for each image, of the sum of exp(cosine / temperature) over those of the k
    nearest labelled images that are of each class: −∞ where none is. Their softmax is the share of the votes.
    """
    labels_L = labels_L.to(features_NF.device)
    cosine_NK, labels_NK = nearest(unit(features_NF), unit(labelled_LF), labels_L, min(k, len(labels_L)))
    # relative to the nearest, so that no temperature lets all weights vanish
    nearer_NK = cosine_NK - cosine_NK[:, :1]
    weight_NK = torch.exp(nearer_NK / temperature).masked_fill(labels_NK == UNLABELLED, 0)
    score_NY = weight_NK.new_zeros(len(features_NF), classes)
    return score_NY.scatter_add_(1, labels_NK.clamp(min=0), weight_NK).log()


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
