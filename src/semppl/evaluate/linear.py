"""A linear classifier on frozen features: l2-penalised logistic regression, its penalty by cross-validation.

Shapes: N images asked about, L labelled images, F features, Y classes, P of them present, K folds, S fits.

Penalties are for features divided by one number, their standard deviation over all dimensions: dividing each
dimension by its own would blow up those that hardly vary in a few labelled images. Dividing features by a
number is the same as multiplying the penalty by its square.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.data.dataset import evenly
from semppl.data.splits import hold_out
from semppl.evaluate.logistic import NEVER, LogisticFit, fit_logistic

# inverse strengths of the penalty, for features of unit variance
STRENGTHS = tuple(float(10.0**power) for power in range(-4, 3))

# labels up to which there are folds; of more a fifth chooses once, and 20,000 at most
_MOST: Final = 2000
_MOST_HELD: Final = 20_000
_FOLDS: Final = 5
# numbers in the features up to which float64 is affordable; in it, a fit can be as good as exact
_EXACT: Final = 2**26
_TOLERANCE: Final = {torch.double: 1e-6, torch.float: 1e-4}
# images scored at a time; and converted to float64
_SCORED: Final = 512
_CONVERTED: Final = 8192
# what is impossible to a classifier costs as much as a chance of e⁻³⁰: no label decides alone
IMPOSSIBLE: Final = 30.0


class LinearFit(NamedTuple):
    """logits = features · weightᵀ + bias, in float64."""

    weight_YF: Tensor
    bias_Y: Tensor
    strength: float = math.nan
    """Inverse penalty that was chosen; nan where it is not known."""
    chosen: str = ""
    """How, in words."""

    def logits(self, features_NF: Tensor) -> Tensor:
        """Of features as the encoder gives them, a part of them in float64 at a time."""
        return torch.cat(
            [part.double() @ self.weight_YF.T + self.bias_Y for part in features_NF.split(_CONVERTED)]
        )


def standard(features_NF: Tensor) -> tuple[Tensor, Tensor]:
    """Their mean [F], and their standard deviation over all dimensions, one number."""
    variance_F, mean_F = torch.var_mean(features_NF, 0, correction=0)
    return mean_F, variance_F.mean().sqrt().clamp(min=1e-12)


def fit_linear(
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    classes: int,
    seed: int = 0,
    strength: float | None = None,
    device: torch.device | str | None = None,
) -> LinearFit:
    """Fit on the labelled features; the work is done on `device`, by default where they are.

    The penalty, unless its inverse `strength` is given, is chosen by cross-validation inside the labels; with
    a single image in some class there is nothing to hold out and the strength is 1. Of more than 2,000 labels
    a fifth chooses once. A class without a label is never answered.

    All folds and strengths are one batch: for 160 labels of 20 classes with 512 features on two cores, 0.2 s.
    One fit after the other, scikit-learn's search takes 0.4 s with one thread of BLAS and 6.8 s with two (on
    another machine 0.45 s with one and 40 s with sixteen), torch.optim.LBFGS 1.4 s (docs/performance.md).
    """
    features_LF, present_P, labels_L = _prepared(labelled_LF, labels_L, device)
    _, scale = standard(features_LF)
    fitted = partial(_fit, features_LF, labels_L, scale, device)
    chosen = "penalty given"
    if strength is None:
        strength, chosen = _strength(features_LF, labels_L, fitted, seed)
    fit = fitted([strength])
    weight_PF, bias_P = fit.weight_SYF[0].double(), fit.bias_SY[0].double()
    if len(present_P) == 2:  # the second is told from the first
        weight_PF, bias_P = weight_PF - weight_PF[0], bias_P - bias_P[0]
    weight_YF = weight_PF.new_zeros(classes, weight_PF.shape[1])
    bias_Y = bias_P.new_full((classes,), NEVER)
    weight_YF[present_P], bias_Y[present_P] = weight_PF, bias_P
    weight_YF, bias_Y = weight_YF.to(labelled_LF.device), bias_Y.to(labelled_LF.device)
    return LinearFit(weight_YF, bias_Y, strength, chosen)


def left_out_logits(
    labelled_LF: Tensor,
    labels_L: Tensor,
    *,
    classes: int,
    strength: float,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Logits and labels of labels that are left out in turn, or once a fifth of many, by fits of this
    strength to the others. The single label of a class stays; None where none can be left out.
    """
    features_LF, present_P, place_L = _prepared(labelled_LF, labels_L, device)
    several = (place_L.bincount()[place_L] > 1).nonzero().squeeze(1).cpu()
    _, among_S = place_L.cpu()[several].unique(return_inverse=True)
    held = [several[test] for test in _left_out(among_S, seed)] if len(several) else []
    if not held:
        return None
    _, scale = standard(features_LF)
    fit = _fit(features_LF, place_L, scale, device, [strength] * len(held), _all_but(held, len(labels_L)))
    logits = [
        LinearFit(weight_PF.double(), bias_P.double()).logits(features_LF[test].to(weight_PF.device))
        for weight_PF, bias_P, test in zip(fit.weight_SYF, fit.bias_SY, held, strict=True)
    ]
    tested, logits_NP = torch.cat(held), torch.cat(logits)
    logits_NY = logits_NP.new_full((len(tested), classes), NEVER)
    logits_NY[:, present_P.to(logits_NY.device)] = logits_NP
    return logits_NY, labels_L[tested]


def linear_predict(features_NF: Tensor, labelled_LF: Tensor, labels_L: Tensor, *, seed: int = 0) -> Tensor:
    """Fit on the labelled features; predict the others."""
    classes = int(labels_L.max()) + 1
    return fit_linear(labelled_LF, labels_L, classes=classes, seed=seed).logits(features_NF).argmax(1)


def fit_validated(
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    penalties: Sequence[float],
    *,
    classes: int,
    per_class: bool = False,
    device: torch.device | str | None = None,
) -> tuple[LinearFit, float, float]:
    """Choose the penalty that is best on validation, of equals the first, and fit on both parts with it.

    The parts are features and labels. The penalty and its score come too: accuracy, or its mean over classes.
    """
    features_NF, labels_N = train

    def fitted(features_NF: Tensor, labels_N: Tensor, penalties_S: Sequence[float]) -> LogisticFit:
        _, scale = standard(features_NF)
        penalty_S = torch.tensor(penalties_S) * scale.cpu() ** 2
        return fit_logistic(features_NF, labels_N, classes=classes, penalty_S=penalty_S, device=device)

    fits = fitted(features_NF.float(), labels_N, penalties)
    scores_S = layer_scores(fits.weight_SYF, fits.bias_SY, *validation, per_class=per_class)
    best = int(scores_S.argmax())
    both_NF, both_N = (torch.cat(pair) for pair in zip(train, validation, strict=True))
    final = fitted(both_NF.float(), both_N, [penalties[best]])
    weight_YF, bias_Y = (part[0].to(features_NF.device).double() for part in final[:2])
    return LinearFit(weight_YF, bias_Y), penalties[best], float(scores_S[best])


def layer_scores(
    weight_SYF: Tensor, bias_SY: Tensor, features_NF: Tensor, labels_N: Tensor, *, per_class: bool = False
) -> Tensor:
    """Accuracy of each layer [S], or its mean over the classes that occur; −1 if a layer is not finite."""
    count, classes, _ = weight_SYF.shape
    right_SY = torch.zeros(count, classes, dtype=torch.long, device=bias_SY.device)
    for features_nF, labels in zip(features_NF.split(_SCORED), labels_N.split(_SCORED), strict=True):
        labels_n = labels.to(bias_SY.device)
        logits_SYn = (weight_SYF.flatten(0, 1) @ features_nF.to(weight_SYF).T).unflatten(0, (count, classes))
        answers_Sn = logits_SYn.add_(bias_SY[:, :, None]).argmax(1)
        right_SY.index_add_(1, labels_n, (answers_Sn == labels_n).long())
    size_Y = labels_N.to(bias_SY.device).bincount(minlength=classes)
    share_SY = right_SY[:, size_Y > 0].double() / size_Y[size_Y > 0]
    score_S = share_SY.mean(1) if per_class else right_SY.sum(1).double() / len(labels_N)
    return score_S.where(weight_SYF.isfinite().all((1, 2)) & bias_SY.isfinite().all(1), -1)


def layer_losses(weight_SYF: Tensor, bias_SY: Tensor, features_NF: Tensor, labels_N: Tensor) -> Tensor:
    """Mean cross-entropy of each layer [S]; what is impossible to one costs as much as a chance of e⁻³⁰."""
    count, classes, _ = weight_SYF.shape
    loss_S = torch.zeros(count, dtype=torch.double, device=bias_SY.device)
    for features_nF, labels_n in zip(features_NF.split(_SCORED), labels_N.split(_SCORED), strict=True):
        logits_SYn = (weight_SYF.flatten(0, 1) @ features_nF.to(weight_SYF).T).unflatten(0, (count, classes))
        chance_SYn = logits_SYn.add_(bias_SY[:, :, None]).log_softmax(1)
        own_Sn = chance_SYn.gather(1, labels_n.to(bias_SY.device).expand(count, 1, -1)).squeeze(1)
        loss_S -= own_Sn.clamp(min=-IMPOSSIBLE).sum(1, dtype=torch.double)
    return loss_S / len(labels_N)


def _fit(
    features_LF: Tensor,
    labels_L: Tensor,
    scale: Tensor,
    device: torch.device | str | None,
    strengths_S: Sequence[float],
    rows_SL: Tensor | None = None,
) -> LogisticFit:
    """As scikit-learn, which has one row of weights for two classes and so half the penalty of two rows."""
    classes = int(labels_L.max()) + 1
    penalty_S = (2 if classes == 2 else 1) / torch.tensor(strengths_S, dtype=torch.double)
    return fit_logistic(
        features_LF,
        labels_L,
        classes=classes,
        penalty_S=penalty_S * scale.cpu() ** 2,
        rows_SN=rows_SL,
        tolerance=_TOLERANCE[features_LF.dtype],
        device=device,
    )


def _strength(
    features_LF: Tensor, labels_L: Tensor, fitted: Callable[[Sequence[float], Tensor], LogisticFit], seed: int
) -> tuple[float, str]:
    """The inverse penalty with the best mean accuracy on labels left out, of equals that with the least
    cross-entropy, for few labels leave many equal and probabilities matter, too; how, in words.

    A penalty belongs to a number of labels, for the errors of all are summed: a small part of many labels
    could not choose for all of them, and of more than 2,000 the strengths that are tried are divided by how
    many times more there are.
    """
    held = _left_out(labels_L.cpu(), seed)
    if not held:
        return 1.0, "penalty 1, not chosen, for a class has a single label"
    rows_KL = _all_but(held, len(labels_L))
    strengths_C = np.array(STRENGTHS) * min(_MOST / len(labels_L), 1)
    fit = fitted(np.repeat(strengths_C, len(held)).tolist(), rows_KL.repeat(len(STRENGTHS), 1))
    scores, losses = np.empty((2, len(STRENGTHS), len(held)))
    for fold, test in enumerate(held):
        place = test.to(labels_L.device)
        apart = (features_LF[place], labels_L[place])
        weight_CYF, bias_CY = (part[fold :: len(held)] for part in (fit.weight_SYF, fit.bias_SY))
        scores[:, fold] = layer_scores(weight_CYF, bias_CY, *apart).cpu()
        losses[:, fold] = layer_losses(weight_CYF, bias_CY, *apart).cpu()
    folds = f"by {len(held)}-fold cross-validation inside" if len(held) > 1 else f"on {len(held[0]):,} of"
    best, *_ = np.lexsort((np.average(losses, axis=1), -np.average(scores, axis=1)))
    return float(strengths_C[best]), f"penalty chosen {folds} the labels"


def _prepared(
    labelled_LF: Tensor, labels_L: Tensor, device: torch.device | str | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Features as exact as is affordable, the classes that occur, and the labels as places among these."""
    # many features stay where they are, and a part is moved at a time
    features_LF = labelled_LF.to(device, torch.double) if labelled_LF.numel() <= _EXACT else labelled_LF
    present_P, place_L = labels_L.to(features_LF.device).unique(return_inverse=True)
    return features_LF, present_P, place_L


def _all_but(held: Sequence[Tensor], count: int) -> Tensor:
    """For each fold the labels that it keeps [K, L]."""
    rows_KL = torch.ones(len(held), count, dtype=torch.bool)
    for row_L, test in zip(rows_KL, held, strict=True):
        row_L[test] = False
    return rows_KL


def _left_out(labels_L: Tensor, seed: int) -> list[Tensor]:
    """Positions of labels that are left out in turn, or once a fifth of many; none where that cannot be."""
    if len(labels_L) > _MOST:
        _, apart_L = hold_out(labels_L, 1 / _FOLDS, seed)
        apart = evenly((apart_L != UNLABELLED).nonzero().squeeze(1), _MOST_HELD)
        return [apart] if len(apart) else []
    smallest = int(labels_L.bincount().min())
    if smallest < 2:
        return []
    folds = StratifiedKFold(n_splits=min(smallest, _FOLDS), shuffle=True, random_state=seed)
    return [torch.from_numpy(test) for _, test in folds.split(labels_L, labels_L)]
