import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from semppl.core.errors import UserError
from semppl.report import map as maps
from semppl.report.map import umap_map, wanted

FEATURES = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


class Stub:
    """Stands for a library that takes half a minute to load."""

    def __init__(self, *, n_neighbors, random_state):
        warnings.warn("no parallelism with a seed", stacklevel=2)
        self.n_neighbors = n_neighbors

    def fit_transform(self, features):
        if not np.any(features):
            raise ValueError("all alike")
        return np.full((len(features), 2), np.inf if features[0, 0] > 100 else self.n_neighbors)


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Stub))


def test_as_many_neighbours_as_there_are(stub):
    assert umap_map(FEATURES)[0].tolist() == [15, 15]
    assert umap_map(FEATURES[:9])[0].tolist() == [8, 8]


def test_no_map_of_few_images_or_of_nonsense(stub):
    assert umap_map(FEATURES[:7]) is None
    assert umap_map(np.zeros((20, 4), np.float32)) is None
    assert umap_map(FEATURES + 1000) is None


def test_a_map_that_is_asked_for_must_be_possible(monkeypatch):
    monkeypatch.setattr(maps, "find_spec", lambda name: None)
    assert not wanted("auto")
    assert not wanted("off")
    with pytest.raises(UserError, match="--umap on needs umap-learn: pip install umap-learn"):
        wanted("on")
    monkeypatch.setattr(maps, "find_spec", lambda name: "there")
    assert wanted("auto")
    assert wanted("on")
    assert not wanted("off")
