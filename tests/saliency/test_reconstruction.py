import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso

from semppl.saliency.reconstruction import (
    clustered,
    dense_error,
    posterior,
    propagated,
    reconstruction,
    sparse_error,
)
from semppl.saliency.superpixels import Superpixels, paint, superpixels


def disc(height=96, width=128, centre=(40, 80), radius=24, seed=0):
    """A red disc on a noisy slope of grey to green, and where it is."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([90 + 0 * rows, 90 + columns * 0.5, 90 + rows * 0.3], 2) + rng.normal(
        0, 6, (height, width, 3)
    )
    truth = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < radius**2
    image[truth] = [200, 40, 50]
    return image.clip(0, 255).astype(np.uint8), truth


def regions_of(rgb_N3, place_N2, border_N):
    """Regions of equal size without pixels: the estimator needs none."""
    count = len(rgb_N3)
    return Superpixels(
        labels_HW=np.arange(count, dtype=np.int32)[None],
        lab_N3=100 * np.asarray(rgb_N3, float),
        rgb_N3=np.asarray(rgb_N3, float),
        place_N2=np.asarray(place_N2, float),
        area_N=np.full(count, 1 / count),
        border_N4=np.repeat(np.asarray(border_N, bool)[:, None], 4, 1),
        pairs_E2=np.zeros((0, 2), np.int64),
    )


def in_colours(count=60, seed=0):
    """Features such as those of regions: positive, and alike."""
    rng = np.random.default_rng(seed)
    return (0.5 + 0.3 * rng.random((count, 1)) + 0.2 * rng.normal(size=(count, 8))).clip(0, 1)


def test_a_disc_is_found_wherever_it_lies():
    for centre in ((48, 64), (34, 90), (60, 34)):
        image, truth = disc(centre=centre)
        regions = superpixels(image)
        found = paint(reconstruction(regions), regions) >= 0.5
        assert (found & truth).sum() / (found | truth).sum() > 0.85


def test_the_same_image_gives_the_same_values():
    regions = superpixels(disc()[0])
    assert (reconstruction(regions) == reconstruction(regions)).all()


def test_dense_errors_are_those_of_scikit_learns_components():
    x, templates = in_colours(50, 0), in_colours(20, 1)
    pca = PCA(n_components=0.95, svd_solver="full").fit(templates)
    theirs = np.linalg.norm(x - pca.inverse_transform(pca.transform(x)), axis=1)
    assert np.allclose(dense_error(x, templates), theirs)


def test_dense_error_by_hand():
    line = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    assert np.allclose(dense_error(np.array([[7.0, 1.0], [0.0, 4.0]]), line), [0, 3])


def test_dense_error_from_equal_templates_is_the_distance_from_them():
    x = in_colours(5)
    assert np.allclose(dense_error(x, np.tile(x[:1], (4, 1))), np.linalg.norm(x - x[0], axis=1))
    assert np.allclose(dense_error(x, x[:1]), np.linalg.norm(x - x[0], axis=1))


def test_sparse_errors_are_those_of_the_lasso():
    x, templates = in_colours(40, 0), in_colours(25, 1)
    unit, basis = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, templates))
    # scikit-learn's is the squared error over twice the number of features
    lasso = Lasso(0.01 / 8, fit_intercept=False, tol=1e-6, max_iter=100_000).fit(basis.T, unit.T)
    theirs = ((unit - lasso.coef_ @ basis) ** 2).sum(1)
    assert np.abs(sparse_error(x, templates) - theirs).max() < 0.02 * theirs.max()


def test_sparse_error_by_hand():
    # of orthogonal templates each coefficient shrinks by λ = 0.01; what no template has remains
    templates = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    x = np.array([[5.0, 0.0, 0.0], [0.0, 0.0, 1.0], [3.0, 0.0, 4.0]])
    assert np.allclose(sparse_error(x, templates), [1e-4, 1, 0.8**2 + 1e-4])


def test_sparse_error_does_not_depend_on_length():
    x, templates = in_colours(10, 0), in_colours(8, 1)
    assert np.allclose(sparse_error(3 * x, 0.2 * templates), sparse_error(x, templates))
    assert np.isfinite(sparse_error(np.zeros((2, 8)), np.zeros((3, 8)))).all()


def test_clusters_that_lie_apart_are_found_whatever_the_order():
    rng = np.random.default_rng(1)
    truth = rng.permutation(np.repeat(np.arange(4), 10))
    x = 10 * np.eye(4)[truth] + 0.1 * rng.normal(size=(40, 4))
    found = clustered(x, 4)
    assert len(set(zip(truth.tolist(), found.tolist(), strict=True))) == 4
    assert len(set(found.tolist())) == 4


def test_clusters_of_few_different_rows():
    assert (clustered(np.ones((5, 3))) == 0).all()
    assert clustered(np.ones((1, 3))).tolist() == [0]
    found = clustered(np.array([[0.0], [1.0], [0.0], [1.0]]))
    assert found[0] == found[2] != found[1] == found[3]


def test_each_row_is_in_the_cluster_of_the_nearest_mean():
    x = in_colours(80)
    found = clustered(x)
    means = np.stack([x[found == k].mean(0) for k in range(8)])
    assert (((x[:, None] - means) ** 2).sum(2).argmin(1) == found).all()


def test_propagation_by_hand():
    x = np.array([[0.0], [0.0], [0.0], [9.0]])
    clusters = np.array([0, 0, 0, 1])
    # all weights are 1; the largest first: 8 → (8 + (4 + 0)/2) / 2 = 5; 4 → (4 + (5 + 0)/2) / 2 = 3.25;
    # 0 → (0 + (5 + 3.25)/2) / 2 = 2.0625; the region that is alone keeps its error
    spread = propagated(np.array([4.0, 0.0, 8.0, 6.0]), x, clusters)
    assert np.allclose(spread, [3.25, 2.0625, 5, 6])


def test_propagation_weighs_by_likeness():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    variance = (x.var(0)).mean()
    near, far = np.exp(-1 / (2 * variance)), np.exp(-4 / (2 * variance))
    spread = propagated(np.array([3.0, 2.0, 1.0]), x, np.zeros(3, int))
    assert spread[0] == pytest.approx(1.5 + 0.5 * (2 * near + 1 * far) / (near + far))


def test_propagation_leaves_equal_errors_and_the_range_as_they_are():
    x = in_colours(30)
    clusters = clustered(x)
    assert np.allclose(propagated(np.full(30, 0.4), x, clusters), 0.4)
    error = np.random.default_rng(0).random(30)
    spread = propagated(error, x, clusters)
    assert error.min() <= spread.min() <= spread.max() <= error.max()
    assert np.allclose(propagated(error, np.ones((30, 8)), np.arange(30)), error)


def test_a_map_that_agrees_sharpens_the_prior_and_one_that_does_not_blunts_it():
    prior = np.array([0.1] * 6 + [0.8] * 4)
    area = np.full(10, 0.1)
    agreed = posterior(prior, np.array([0.0] * 6 + [1.0] * 4), area)
    assert (agreed[:6] < 0.001).all()
    assert (agreed[6:] > 0.999).all()
    # the other map looks the same everywhere: the prior remains
    assert np.allclose(posterior(prior, np.full(10, 0.5), area), prior)


def test_posterior_by_hand():
    # half of the foreground and a quarter of the background look bright: odds 0.6/0.4 · 2
    prior = np.array([0.6, 0.6, 0.1, 0.1, 0.1, 0.1])
    seen = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    found = posterior(prior, seen, np.full(6, 1 / 6))
    assert found[0] == pytest.approx(1.2 / (1.2 + 0.4))
    assert found[1] == pytest.approx(0.6 * 0.5 / (0.6 * 0.5 + 0.4 * 0.75))
    assert found[3] == pytest.approx(0.1 * 0.5 / (0.1 * 0.5 + 0.9 * 0.75))


def test_posterior_counts_pixels_not_regions():
    prior, seen, area = np.array([0.9, 0.2, 0.1]), np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.25, 0.25])
    halved = posterior(
        np.repeat(prior, [2, 1, 1]), np.repeat(seen, [2, 1, 1]), np.array([0.25, 0.25, 0.25, 0.25])
    )
    assert np.allclose(halved[1:], posterior(prior, seen, area))


def test_posterior_of_an_empty_prior_is_empty():
    assert (posterior(np.zeros(3), np.array([0.0, 0.5, 1.0]), np.full(3, 1 / 3)) == 0).all()


def is_a_map(values):
    return bool(np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1)


def test_one_region():
    assert reconstruction(regions_of([[0.2, 0.4, 0.6]], [[0.5, 0.5]], [True])).tolist() == [0]


def test_all_regions_at_the_edge():
    rng = np.random.default_rng(0)
    assert is_a_map(reconstruction(regions_of(rng.random((30, 3)), rng.random((30, 2)), np.ones(30))))
    assert is_a_map(reconstruction(regions_of(rng.random((2, 3)), rng.random((2, 2)), np.ones(2))))


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (200, 1), (3, 90), (40, 60)])
def test_all_colours_equal(shape):
    for level in (0, 128, 255):
        assert (reconstruction(superpixels(np.full((*shape, 3), level, np.uint8))) == 0).all()


@pytest.mark.parametrize("shape", [(1, 2), (1, 200), (200, 1), (3, 90)])
def test_narrow_images(shape):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    values = reconstruction(superpixels(image))
    assert is_a_map(values)


def test_a_grey_image():
    image, truth = disc()
    grey = np.repeat(image[:, :, 1:2], 3, 2)
    regions = superpixels(grey)
    values = reconstruction(regions)
    assert is_a_map(values)
    found = paint(values, regions)
    assert found[truth].mean() > found[~truth].mean() + 0.5


def test_noise_too_small_to_see_is_no_colour():
    rng = np.random.default_rng(0)
    rows, columns = (v.ravel() for v in np.mgrid[:8, :8])
    place = (np.stack([rows, columns], 1) + 0.5) / 8
    edge = (rows % 7 == 0) | (columns % 7 == 0)
    level = np.where((abs(rows - 3.5) < 2) & (abs(columns - 3.5) < 2), 0.8, 0.3)[:, None]
    regions = regions_of(np.repeat(level, 3, 1), place, edge)
    clean = reconstruction(regions)
    noisy = Superpixels(**{**vars(regions), "lab_N3": regions.lab_N3 + 1e-4 * rng.normal(size=(64, 3))})
    assert np.abs(reconstruction(noisy) - clean).max() < 0.05
