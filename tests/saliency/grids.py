"""Regions that are known without an image, and images of which the answer is known."""

import numpy as np

from semppl.saliency.superpixels import Superpixels


def grid(lightness_RC, area_N=None):
    """Regions of one colour each in rows and columns, numbered as one reads; of equal areas unless given."""
    lightness = np.asarray(lightness_RC, float)
    rows, columns = lightness.shape
    count = lightness.size
    labels = np.arange(count).reshape(rows, columns)
    across = np.stack([labels[:, :-1].ravel(), labels[:, 1:].ravel()], 1)
    down = np.stack([labels[:-1].ravel(), labels[1:].ravel()], 1)
    row_N, column_N = labels.ravel() // columns, labels.ravel() % columns
    lab = np.zeros((count, 3))
    lab[:, 0] = lightness.ravel()
    return Superpixels(
        labels_HW=labels.astype(np.int32),
        lab_N3=lab,
        rgb_N3=np.repeat(lab[:, :1] / 100, 3, 1),
        place_N2=np.stack([(row_N + 0.5) / rows, (column_N + 0.5) / columns], 1),
        area_N=np.full(count, 1 / count) if area_N is None else np.asarray(area_N, float),
        border_N4=np.stack([row_N == 0, row_N == rows - 1, column_N == 0, column_N == columns - 1], 1),
        pairs_E2=np.concatenate([across, down]).astype(np.int64),
    )


def random_grid(rows=5, columns=6, seed=0):
    """All colours differ."""
    return grid(100 * np.random.default_rng(seed).random((rows, columns)))


def links_of(regions):
    """Which regions the graph links, pair by pair: in one step, in two, or along the border."""
    near = [set() for _ in range(len(regions))]
    for i, j in regions.pairs_E2.tolist():
        near[i].add(j)
        near[j].add(i)
    border = regions.border_N4.any(1)
    linked = np.zeros((len(near), len(near)), bool)
    for i in range(len(near)):
        for j in range(len(near)):
            linked[i, j] = i != j and (j in near[i] or bool(near[i] & near[j]) or (border[i] and border[j]))
    return linked


def disc(centre=(40, 80), radius=22, height=96, width=128, seed=0):
    """A bright disc on plain grey, all a little noisy, and where it is."""
    rows, columns = np.mgrid[:height, :width]
    truth = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < radius**2
    image = np.where(truth[:, :, None], [230, 200, 60], [90, 100, 110])
    noise = np.random.default_rng(seed).normal(0, 4, image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8), truth


def overlap(found, truth):
    """Of what either has, the share that both have."""
    return (found & truth).sum() / (found | truth).sum()


def is_a_map(values):
    return bool(np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1)
