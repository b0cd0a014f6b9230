"""Saliency as what the edge of the image cannot explain: dense and sparse reconstruction.

After Li, Lu, Zhang, Ruan and Yang, "Saliency Detection via Dense and Sparse Reconstruction", ICCV 2013: the
regions at the image's edge are templates of the background. What their principal components (dense) or a few
of them (sparse) reconstruct badly stands out. Errors spread among regions that look alike, a Gaussian around
their centre of mass favours one object, and Bayes' rule lets each of the two maps judge the other.

The paper does so at eight scales of superpixels and averages pixel by pixel; here it is one scale, and all of
it happens on the regions. Constants, the unit length in the sparse part and the distance (not its square) in
the dense part are those of the authors' program. New are the smoothing of the likelihoods, the least range of
a colour, and that principal components are taken around the templates' own mean, not around that of all
regions: an object does not move the background.

Shapes: N regions, M templates, F features, K clusters.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.saliency.superpixels import VISIBLE, Superpixels, Values, stretched

_ENERGY: Final = 0.95
"""Share of the templates' variance that the principal components keep."""
_SPARSITY: Final = 0.01
_ITERATIONS: Final = 200
"""Leaves 0.2 % of the largest error on average, 1.6 % in an image's worst region, against 10,000."""
_PENALTY: Final = 10 * _SPARSITY
_RELAXATION: Final = 1.6
_CLUSTERS: Final = 8
_ROUNDS: Final = 30
_SHARED: Final = 0.5
"""Weight of the others in a region's error."""
_SPREAD: Final = 0.25
"""Of the object's Gaussian, as a share of each side."""
_BINS: Final = 60
_BLUR: Final = 2
"""Bins by which likelihoods are smoothed: a few hundred regions leave most of the 60 empty."""


def reconstruction(regions: Superpixels) -> Values:
    """Saliency of each region from 0 to 1; 0 everywhere if no colour differs from the others."""
    features_NF = _features(regions)
    if not _differ(features_NF[:, :-2]):
        return np.zeros(len(regions))
    templates_MF = features_NF[regions.border_N4.any(1)]
    clusters_N = clustered(features_NF)
    dense_N, sparse_N = (
        _object_biased(stretched(propagated(stretched(error_N), features_NF, clusters_N)), regions)
        for error_N in (dense_error(features_NF, templates_MF), sparse_error(features_NF, templates_MF))
    )
    area_N = regions.area_N
    return stretched(posterior(dense_N, sparse_N, area_N) + posterior(sparse_N, dense_N, area_N))


def dense_error(x_NF: Values, templates_MF: Values) -> Values:
    """Distance from the affine space of the templates' principal components."""
    mean_F = templates_MF.mean(0)
    _, lengths, axes = np.linalg.svd(templates_MF - mean_F, full_matrices=False)
    energy = np.cumsum(lengths**2)
    # templates that are all the same span nothing
    kept = int(np.searchsorted(energy, _ENERGY * energy[-1])) + 1 if energy[-1] > 1e-18 else 0
    centred_NF, axes_PF = x_NF - mean_F, axes[:kept]
    return np.linalg.norm(centred_NF - centred_NF @ axes_PF.T @ axes_PF, axis=1)


def sparse_error(x_NF: Values, templates_MF: Values) -> Values:
    """Squared distance from the best sparse combination of templates, all of them of unit length.

    That is the Lasso min ½|x − Bα|² + λ|α|₁, for all regions at once by the alternating direction method of
    multipliers with over-relaxation. Templates look much alike, so that gradients lead slowly: FISTA
    was further away after 400 steps than this after 100. With F = 8 features the inverse needed is small.
    """
    x_FN, templates_FM = _unit(x_NF).T, _unit(templates_MF).T
    # (BᵀB + ρ)⁻¹ = (1 − Bᵀ(ρ + BBᵀ)⁻¹B) / ρ
    inverse_FF = np.linalg.inv(_PENALTY * np.eye(len(x_FN)) + templates_FM @ templates_FM.T)
    inner_FM, pull_MN = inverse_FF @ templates_FM, templates_FM.T @ x_FN
    code_MN, dual_MN = np.zeros_like(pull_MN), np.zeros_like(pull_MN)
    most = _SPARSITY / _PENALTY
    for _ in range(_ITERATIONS):
        wanted_MN = pull_MN / _PENALTY + code_MN - dual_MN
        fitted_MN = wanted_MN - templates_FM.T @ (inner_FM @ wanted_MN)
        relaxed_MN = _RELAXATION * fitted_MN + (1 - _RELAXATION) * code_MN + dual_MN
        dual_MN = relaxed_MN.clip(-most, most)
        code_MN = relaxed_MN - dual_MN
    return ((x_FN - templates_FM @ code_MN) ** 2).sum(0)


def clustered(x_NF: Values, count: int = _CLUSTERS) -> NDArray[np.int64]:
    """K-means from seeded k-means++ centres: a cluster's number for each row, the same every time."""
    rng = np.random.default_rng(0)
    centres_KF = x_NF[[rng.integers(len(x_NF))]]
    nearest_N = _squared_distances(x_NF, centres_KF)[:, 0]
    while len(centres_KF) < count and nearest_N.max() > 1e-12:
        chosen = x_NF[[rng.choice(len(x_NF), p=nearest_N / nearest_N.sum())]]
        centres_KF = np.concatenate([centres_KF, chosen])
        nearest_N = np.minimum(nearest_N, _squared_distances(x_NF, chosen)[:, 0])
    clusters_N = np.full(len(x_NF), -1)
    for _ in range(_ROUNDS):
        before_N, clusters_N = clusters_N, _squared_distances(x_NF, centres_KF).argmin(1)
        if (clusters_N == before_N).all():
            break
        member_KN = clusters_N == np.arange(len(centres_KF))[:, None]
        size_K1 = member_KN.sum(1, keepdims=True)
        centres_KF = np.where(size_K1 > 0, member_KN @ x_NF / np.maximum(size_K1, 1), centres_KF)
    return clusters_N


def propagated(error_N: Values, x_NF: Values, clusters_N: NDArray[np.int64]) -> Values:
    """Each error half its own and half that of the region's likes in its cluster: objects become even.

    One after another, the largest error first, and those that follow see what it has become. A region that is
    alone in its cluster keeps its error.
    """
    variance = max(float(x_NF.var(0).mean()), 1e-12)
    weight_NN = np.exp(-_squared_distances(x_NF, x_NF) / (2 * variance))
    weight_NN *= clusters_N[:, None] == clusters_N
    np.fill_diagonal(weight_NN, 0)
    total_N = weight_NN.sum(1)
    spread_N = error_N.copy()
    for i in np.argsort(-error_N, kind="stable"):
        if total_N[i] > 0:
            spread_N[i] += _SHARED * (weight_NN[i] @ spread_N / total_N[i] - spread_N[i])
    return spread_N


def posterior(prior_N: Values, seen_N: Values, area_N: Values) -> Values:
    """Probability of the foreground by Bayes' rule; both maps are from 0 to 1.

    The prior is one map, and where it reaches its mean are samples of the foreground; the likelihoods are
    histograms of the other map, there and elsewhere.
    """
    foreground_N = prior_N >= prior_N @ area_N
    bins_N = np.minimum((seen_N * _BINS).astype(np.int64), _BINS - 1)
    for_N = prior_N * _likelihood(bins_N, area_N * foreground_N)
    against_N = (1 - prior_N) * _likelihood(bins_N, area_N * ~foreground_N)
    total_N = for_N + against_N
    return for_N / np.where(total_N > 0, total_N, 1)


def _likelihood(bins_N: NDArray[np.int64], weight_N: Values) -> Values:
    """Density of each region's bin; what would fall beyond the ends is reflected."""
    offsets = np.arange(-3 * _BLUR, 3 * _BLUR + 1)
    kernel = np.exp(-((offsets / _BLUR) ** 2) / 2)
    mass = np.pad(np.bincount(bins_N, weight_N, _BINS), 3 * _BLUR, mode="symmetric")
    return np.convolve(mass, kernel / kernel.sum(), mode="valid")[bins_N] / max(float(weight_N.sum()), 1e-12)


def _object_biased(error_N: Values, regions: Superpixels) -> Values:
    """Errors far from their centre of mass count for less."""
    mass_N = error_N * regions.area_N
    if not mass_N.any():
        return error_N
    centre_2 = mass_N @ regions.place_N2 / mass_N.sum()
    away_N = ((regions.place_N2 - centre_2) ** 2).sum(1)
    return stretched(error_N * np.exp(-away_N / (2 * _SPREAD**2)))


def _features(regions: Superpixels) -> Values:
    """CIELab over the range that the image has, RGB, and place: all from 0 to 1."""
    above_N3 = regions.lab_N3 - regions.lab_N3.min(0)
    lab_N3 = above_N3 / np.maximum(above_N3.max(0), VISIBLE)
    return np.concatenate([lab_N3, regions.rgb_N3, regions.place_N2], 1)


def _differ(x_NF: Values) -> bool:
    return bool((np.ptp(x_NF, axis=0) > 1e-6).any())


def _unit(x_NF: Values) -> Values:
    return x_NF / np.maximum(np.linalg.norm(x_NF, axis=1, keepdims=True), 1e-12)


def _squared_distances(x_NF: Values, y_KF: Values) -> Values:
    squares_NK = (x_NF**2).sum(1)[:, None] + (y_KF**2).sum(1) - 2 * x_NF @ y_KF.T
    return np.maximum(squares_NK, 0)
