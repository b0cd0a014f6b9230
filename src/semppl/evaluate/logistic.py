"""Multinomial logistic regression with an l2 penalty: many penalties and many parts of the rows at once.

Shapes: N rows, n of a chunk, F features, Y classes, S problems (a penalty and the rows it may see), A of them
at work, R = min(N, F) principal axes of the features, G = R + 1 (or F + 1) with the bias, D = Y·G parameters.

All problems share the features, so that a step of all of them is two products, [S·Y, F] × [F, N] and back,
whatever the number of folds and penalties. Inside, features are centred (the bias takes it up) and turned to
their principal axes (‖W‖ does not notice): few rows make a small problem, whatever F is, and each axis can be
scaled by the curvature it has at the start, about (λ + 3·mean λ)/Y + penalty/N for variance λ. On features
whose variances fall like 1/j^1.6 it takes a quarter to a seventh of the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from semppl.evaluate.lbfgs import Evaluation, minimise

# the bias of a class without a label: its probability is 0, and so is its gradient
NEVER: Final = -1e9

# where both rows and features are more, features are scaled one by one: axes would take too long to find
_MOST_AXES: Final = 4096
# of the mean variance, what is added to each: at the minimum most rows are sure, and axes curve less
_FLOOR: Final = 3.0
# logits held at a time; bytes of features kept ready, of more a chunk is made ready whenever it is needed
_LOGITS: Final = {"cpu": 2**22, "cuda": 2**27}
_READY: Final = {"cpu": 2**31, "cuda": 2**33}
# bytes for the problems that are solved together, and how many times it takes the parameters of one
_STATE: Final = {"cpu": 2**30, "cuda": 2**33}
_COPIES: Final = 32
# rows at a time elsewhere, and at least
_CHUNK: Final = 2**14
_FEWEST: Final = 128


class LogisticFit(NamedTuple):
    """logits = features · weightᵀ + bias for each problem; a class without a label has bias −10⁹."""

    weight_SYF: Tensor
    bias_SY: Tensor
    iterations_S: Tensor
    converged_S: Tensor


def fit_logistic(
    features_NF: Tensor,
    labels_N: Tensor,
    *,
    classes: int,
    penalty_S: Tensor,
    rows_SN: Tensor | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 1000,
    device: torch.device | str | None = None,
) -> LogisticFit:
    """Minimise Σ rows · cross-entropy + penalty/2 · ‖W‖² for each problem; biases are free.

    This is scikit-learn's objective with C = 1/penalty (for two classes 2/penalty: it has one row of weights
    where we have two). Inside it is divided by the number of rows; a problem has converged when the gradient
    of that, for features of unit variance on average, has at most the length `tolerance`.

    `rows_SN` says which rows a problem sees, or how much each counts; without it all see all. The work is
    done on `device`, by default where the features are, in float64 if they are, else in float32. Features may
    be larger than its memory, and memory-mapped: a chunk is moved at a time.
    """
    if rows_SN is None:
        rows_SN = torch.ones(1, 1, dtype=torch.bool).expand(len(penalty_S), len(labels_N))
    _check(features_NF, labels_N, classes, penalty_S, rows_SN)
    device = torch.device(device or features_NF.device)
    data = _prepare(features_NF, labels_N.to(device), device)
    each = classes * (len(data.variance_R) + 1) * data.mean_F.itemsize * _COPIES
    fits = []
    for part in torch.arange(len(penalty_S)).split(max(_STATE[device.type] // each, 1)):
        problems = _problems(data, classes, penalty_S[part], rows_SN[part])
        found = minimise(
            problems.evaluate, problems.start(), tolerance=tolerance, max_iterations=max_iterations
        )
        fits.append(LogisticFit(*problems.outward(found.point_SD), found.iterations_S, found.converged_S))
    return LogisticFit(*(torch.cat(tensors) for tensors in zip(*fits, strict=True)))


def _check(features_NF: Tensor, labels_N: Tensor, classes: int, penalty_S: Tensor, rows_SN: Tensor) -> None:
    if not len(labels_N) or len(features_NF) != len(labels_N):
        raise ValueError(f"{tuple(features_NF.shape)} features do not fit {len(labels_N)} labels")
    if not 0 <= int(labels_N.min()) <= int(labels_N.max()) < classes:
        raise ValueError(f"labels must be from 0 to {classes - 1}, but are {labels_N.unique().tolist()}")
    if not len(penalty_S) or float(penalty_S.min()) <= 0:
        raise ValueError(f"penalties must be positive, but are {penalty_S.tolist()}")
    if rows_SN.shape != (len(penalty_S), len(labels_N)):
        raise ValueError(f"{tuple(rows_SN.shape)} rows do not fit {len(penalty_S)} × {len(labels_N)}")


@dataclass(frozen=True)
class _Data:
    """Features, and the axes along which they are made ready if there is room for that."""

    features_NF: Tensor
    labels_N: Tensor
    mean_F: Tensor
    axes_FR: Tensor | None
    """None if each feature is an axis."""
    variance_R: Tensor
    ready_NG: Tensor | None

    @property
    def unit(self) -> Tensor:
        """The mean variance of the features."""
        return (self.variance_R.sum() / len(self.mean_F)).clamp(min=1e-24)

    def chunks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """Which rows, and what they have: ready, or centred features with a last column of ones."""
        for first in range(0, len(self.labels_N), size):
            part = slice(first, first + size)
            if self.ready_NG is not None:
                yield part, self.ready_NG[part]
            else:
                centred_nF = self.features_NF[part].to(self.mean_F) - self.mean_F
                yield part, torch.cat([centred_nF, torch.ones_like(centred_nF[:, :1])], dim=1)

    def along_axes(self, x_G: Tensor) -> Tensor:
        """Turned from the features; the last column stays."""
        return _turned(x_G, self.axes_FR)

    def along_features(self, x_G: Tensor) -> Tensor:
        """Turned from the axes."""
        return _turned(x_G, None if self.axes_FR is None else self.axes_FR.T)


def _turned(x_G: Tensor, axes: Tensor | None) -> Tensor:
    return x_G if axes is None else torch.cat([x_G[..., :-1] @ axes, x_G[..., -1:]], dim=-1)


@torch.no_grad()
def _prepare(features_NF: Tensor, labels_N: Tensor, device: torch.device) -> _Data:
    dtype = torch.double if features_NF.dtype == torch.double else torch.float
    num_rows, num_features = features_NF.shape
    mean_F = torch.zeros(num_features, dtype=dtype, device=device)
    for chunk_nF in features_NF.split(_CHUNK):
        mean_F += chunk_nF.to(mean_F).sum(0) / num_rows
    data = _Data(features_NF, labels_N, mean_F, None, mean_F, None)
    axes_FR, variance_R = _principal(data)
    data = replace(data, axes_FR=axes_FR, variance_R=variance_R)
    if num_rows * (len(variance_R) + 1) * mean_F.itemsize > _READY[device.type]:
        return data
    return replace(data, ready_NG=torch.cat([data.along_axes(chunk) for _, chunk in data.chunks(_CHUNK)]))


def _principal(data: _Data) -> tuple[Tensor | None, Tensor]:
    """Axes and the variances along them; with few rows only the axes in which they lie."""
    num_rows, num_features = data.features_NF.shape
    if num_rows < num_features and num_rows <= _MOST_AXES:
        ((_, chunk_nG),) = data.chunks(num_rows)
        basis_FR, triangle_RN = torch.linalg.qr(chunk_nG[:, :-1].T)
        variance_R, turn_RR = torch.linalg.eigh(triangle_RN @ triangle_RN.T / num_rows)
        return basis_FR @ turn_RR, variance_R.clamp(min=0)
    turned = num_features <= _MOST_AXES
    square = torch.zeros_like(data.mean_F.expand(num_features, -1) if turned else data.mean_F)
    for _, chunk_nG in data.chunks(_CHUNK):
        chunk_nF = chunk_nG[:, :-1]
        square += chunk_nF.T @ chunk_nF if turned else chunk_nF.square().sum(0)
    if not turned:
        return None, square / num_rows
    variance_R, axes_FR = torch.linalg.eigh(square / num_rows)
    return axes_FR, variance_R.clamp(min=0)


@dataclass(frozen=True)
class _Problems:
    """Penalties on the same data; parameters are weights and bias of each class along the axes, scaled."""

    data: _Data
    classes: int
    rows_SN: Tensor
    count_S: Tensor
    penalty_S: Tensor
    """Of a row."""
    present_SY: Tensor
    scale_SG: Tensor

    def evaluate(self, point_AD: Tensor, which_A: Tensor) -> Evaluation:
        """The objective for a row and its gradient."""
        scale_A1G = self.scale_SG[which_A][:, None]
        layer_AYG = point_AD.unflatten(1, (self.classes, -1)) * scale_A1G
        along = layer_AYG if self.data.ready_NG is not None else self.data.along_features(layer_AYG)
        value_A, slope_AYG = self._fit(along, which_A)
        if self.data.ready_NG is None:
            slope_AYG = self.data.along_axes(slope_AYG)
        weight_AYR, penalty_A = layer_AYG[:, :, :-1], self.penalty_S[which_A]
        slope_AYG[:, :, :-1] += penalty_A[:, None, None] * weight_AYR
        value_A = value_A + 0.5 * penalty_A * weight_AYR.square().sum((1, 2))
        weight_A, bias_A = (
            part.square().sum((1, 2)) for part in slope_AYG.split((len(self.data.variance_R), 1), 2)
        )
        size_A = (weight_A / self.data.unit + bias_A).sqrt()
        return Evaluation(value_A, (slope_AYG * scale_A1G).flatten(1), size_A)

    def _fit(self, layer_AYG: Tensor, which_A: Tensor) -> tuple[Tensor, Tensor]:
        """Mean cross-entropy and its gradient; with rows last in the logits, sums over classes are quick."""
        num_problems, num_classes, _ = layer_AYG.shape
        share_A1 = 1 / self.count_S[which_A][:, None]
        classes_Y1 = torch.arange(num_classes, device=which_A.device)[:, None]
        value_A = torch.zeros_like(share_A1[:, 0], dtype=torch.double)
        slope_AYG = torch.zeros_like(layer_AYG)
        size = max(_LOGITS[which_A.device.type] // (num_problems * num_classes), _FEWEST)
        for part, chunk_nG in self.data.chunks(size):
            labels_n = self.data.labels_N[part]
            share_An = self.rows_SN[:, part][which_A] * share_A1
            logits_AYn = (layer_AYG.flatten(0, 1) @ chunk_nG.T).unflatten(0, (num_problems, -1))
            logits_AYn -= logits_AYn.amax(1, keepdim=True)
            chance_AYn = logits_AYn.exp()
            total_A1n = chance_AYn.sum(1, keepdim=True)
            own_A1n = logits_AYn.gather(1, labels_n.expand(num_problems, 1, -1))
            value_A += ((total_A1n.log() - own_A1n).squeeze(1) * share_An).sum(1, dtype=torch.double)
            error_AYn = chance_AYn.div_(total_A1n).sub_((labels_n == classes_Y1).to(chance_AYn))
            error_AYn *= share_An[:, None]
            slope_AYG += (error_AYn.flatten(0, 1) @ chunk_nG).view_as(slope_AYG)
        return value_A, slope_AYG

    def start(self) -> Tensor:
        """Parameters [S, D]: zeros, and a bias that rules out classes without a label."""
        layer_SYG = self.scale_SG.new_zeros(*self.present_SY.shape, self.scale_SG.shape[1])
        layer_SYG[:, :, -1].masked_fill_(~self.present_SY, NEVER)
        return (layer_SYG / self.scale_SG[:, None]).flatten(1)

    def outward(self, point_SD: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and biases for features as they came."""
        layer_SYG = point_SD.unflatten(1, (self.classes, -1)) * self.scale_SG[:, None]
        layer_SYG = self.data.along_features(layer_SYG)
        weight_SYF = layer_SYG[:, :, :-1].contiguous()
        bias_SY = layer_SYG[:, :, -1] - weight_SYF @ self.data.mean_F
        return weight_SYF, bias_SY.where(self.present_SY, NEVER)


def _problems(data: _Data, classes: int, penalty_S: Tensor, rows_SN: Tensor) -> _Problems:
    variance_R, device = data.variance_R, data.mean_F.device
    labels_SY = data.mean_F.new_zeros(len(penalty_S), classes)
    rows_SN = rows_SN.to(device)
    for rows_Sn, labels_n in zip(rows_SN.split(_CHUNK, 1), data.labels_N.split(_CHUNK), strict=True):
        labels_SY.index_add_(1, labels_n, rows_Sn.to(labels_SY))
    count_S = labels_SY.sum(1).clamp(min=1)
    penalty_S = penalty_S.to(count_S) / count_S
    curvature_R = (variance_R + _FLOOR * variance_R.mean()) / classes
    scale_SR = (curvature_R + penalty_S[:, None]).rsqrt()
    scale_SG = torch.cat([scale_SR, scale_SR.new_full((len(scale_SR), 1), classes**0.5)], dim=1)
    return _Problems(data, classes, rows_SN, count_S, penalty_S, labels_SY > 0, scale_SG)
