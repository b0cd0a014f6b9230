"""A linear classifier on frozen features (l2-penalised logistic regression of scikit-learn, L-BFGS).

Shapes: N images asked about, L labelled images, F features, Y classes.
"""

from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from torch import Tensor

# inverse strengths of the penalty, for features of unit variance
STRENGTHS = tuple(float(10.0**power) for power in range(-4, 3))

# labels that choose among them
_MOST: Final = 2000


class LinearFit(NamedTuple):
    """logits = features · weightᵀ + bias, in float64."""

    weight_YF: Tensor
    bias_Y: Tensor

    def logits(self, features_NF: Tensor) -> Tensor:
        """Of features as the encoder gives them."""
        return features_NF.double() @ self.weight_YF.T + self.bias_Y


def fit_linear(labelled_LF: Tensor, labels_L: Tensor, *, classes: int, seed: int = 0) -> LinearFit:
    """Fit on the labelled features.

    Features are centred and divided by one number, their standard deviation over all dimensions: dividing
    each dimension by its own would blow up those that hardly vary in a few labelled images. The penalty is
    chosen by cross-validation inside the given labels; with a single image in some class there is nothing to
    hold out and the strength is 1. Of more than 2,000 labels a part chooses. A class without a label is never
    answered.
    """
    features_LF = labelled_LF.double()
    mean_F = features_LF.mean(0)
    scale = (features_LF - mean_F).square().mean().sqrt().clamp(min=1e-12)
    x, y = ((features_LF - mean_F) / scale).numpy(), labels_L.numpy()
    best = LogisticRegression(max_iter=2000, C=_strength(x, y, seed)).fit(x, y)
    weight, bias = torch.from_numpy(best.coef_), torch.from_numpy(best.intercept_)
    if len(weight) == 1:  # of two classes scikit-learn fits the second alone
        weight, bias = (
            torch.cat([torch.zeros_like(weight), weight]),
            torch.cat([torch.zeros_like(bias), bias]),
        )
    present = torch.from_numpy(best.classes_).long()
    weight_YF = torch.zeros(classes, features_LF.shape[1], dtype=torch.double)
    bias_Y = torch.full((classes,), -1e9, dtype=torch.double)
    weight_YF[present] = weight / scale
    bias_Y[present] = bias - weight_YF[present] @ mean_F
    return LinearFit(weight_YF, bias_Y)


def _strength(x: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> float:
    """The inverse penalty that answers best on labels left out."""
    if len(y) > _MOST:
        kept = np.random.default_rng(seed).permutation(len(y))[:_MOST]
        x, y = x[kept], y[kept]
    _, counts = np.unique(y, return_counts=True)
    if len(y) == _MOST:  # a class may be left with a single image
        several = np.isin(y, np.unique(y)[counts > 1])
        x, y, counts = x[several], y[several], counts[counts > 1]
    if not len(counts) or counts.min() < 2:
        return 1.0
    folds = StratifiedKFold(n_splits=min(int(counts.min()), 5), shuffle=True, random_state=seed)
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": STRENGTHS}, cv=folds, refit=False)
    return float(search.fit(x, y).best_params_["C"])


def linear_predict(features_NF: Tensor, labelled_LF: Tensor, labels_L: Tensor, *, seed: int = 0) -> Tensor:
    """Fit on the labelled features; predict the others."""
    classes = int(labels_L.max()) + 1
    return fit_linear(labelled_LF, labels_L, classes=classes, seed=seed).logits(features_NF).argmax(1)
