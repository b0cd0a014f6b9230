"""k nearest neighbours on frozen features: cosine, weighted by similarity.

Shapes: N images asked about, L labelled images, F features, Y classes.
"""

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit


def knn_predict(
    features_NF: Tensor,
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    k: int,
    temperature: float = 0.1,
    classes: int,
) -> Tensor:
    """The class with the largest sum of exp(cosine / temperature) over the k nearest labelled images."""
    cosine_NK, labels_NK = nearest(unit(features_NF), unit(labelled_LF), labels_L, min(k, len(labels_L)))
    weight_NK = torch.exp((cosine_NK - 1) / temperature).masked_fill(labels_NK == UNLABELLED, 0)
    score_NY = torch.zeros(len(features_NF), classes).scatter_add_(1, labels_NK.clamp(min=0), weight_NK)
    return score_NY.argmax(1)


def accuracy(predicted_N: Tensor, truth_N: Tensor) -> float:
    """Share of right answers."""
    return float((predicted_N == truth_N).float().mean())
