"""A linear classifier on frozen features (l2-penalised logistic regression of scikit-learn, L-BFGS).

Shapes: N images asked about, L labelled images, F features.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from torch import Tensor

# inverse strengths of the penalty, for features of unit variance
STRENGTHS = tuple(float(10.0**power) for power in range(-4, 3))


def linear_predict(features_NF: Tensor, labelled_LF: Tensor, labels_L: Tensor, *, seed: int = 0) -> Tensor:
    """Fit on the labelled features; predict the others.

    Features are centred and divided by one number, their standard deviation over all dimensions: dividing
    each dimension by its own would blow up those that hardly vary in a few labelled images. The penalty is
    chosen by cross-validation inside the given labels; with a single image in some class there is nothing to
    hold out and the strength is 1.
    """
    mean_F = labelled_LF.double().mean(0)
    scale = (labelled_LF.double() - mean_F).square().mean().sqrt().clamp(min=1e-12)

    def standard(features: Tensor) -> NDArray[np.float64]:
        return ((features.double() - mean_F) / scale).numpy()

    least = int(torch.bincount(labels_L)[labels_L].min())
    model = LogisticRegression(max_iter=2000)
    if least >= 2:
        folds = StratifiedKFold(n_splits=min(least, 5), shuffle=True, random_state=seed)
        model = GridSearchCV(model, {"C": STRENGTHS}, cv=folds)
    model.fit(standard(labelled_LF), labels_L.numpy())
    return torch.from_numpy(model.predict(standard(features_NF)))
