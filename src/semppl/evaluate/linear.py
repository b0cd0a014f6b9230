"""A linear classifier on frozen features (L-BFGS logistic regression of scikit-learn).

Shapes: N images asked about, L labelled images, F features.
"""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

# inverse strengths of the l2 penalty
STRENGTHS = tuple(float(10.0**power) for power in range(-4, 3))


def linear_predict(features_NF: Tensor, labelled_LF: Tensor, labels_L: Tensor, *, seed: int = 0) -> Tensor:
    """Fit on the labelled features, standardised; predict the others.

    The penalty is chosen by cross-validation inside the given labels; with a single image in some class there
    is nothing to hold out and the strength is 1.
    """
    least = int(torch.bincount(labels_L)[labels_L].min())
    classifier = LogisticRegression(max_iter=2000)
    if least >= 2:
        folds = StratifiedKFold(n_splits=min(least, 5), shuffle=True, random_state=seed)
        model = GridSearchCV(
            make_pipeline(StandardScaler(), classifier), {"logisticregression__C": STRENGTHS}, cv=folds
        )
    else:
        model = make_pipeline(StandardScaler(), classifier)
    model.fit(labelled_LF.numpy().astype(np.float64), labels_L.numpy())
    return torch.from_numpy(model.predict(features_NF.numpy().astype(np.float64)))
