import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from semppl.evaluate.knn import accuracy, knn_logits, knn_predict


def noisy(count, seed, separation=0.5):
    """Features of five classes."""
    rng = torch.Generator().manual_seed(seed)
    centres = torch.randn(5, 16, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(count) % 5
    return separation * centres[labels] + torch.randn(count, 16, generator=rng), labels


@pytest.mark.parametrize("k", [1, 5, 20, 200])
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_answers_are_scikit_learns(k, temperature):
    (x, y), (queries, truth) = noisy(200, 0), noisy(300, 1)
    theirs = KNeighborsClassifier(
        k, metric="cosine", weights=lambda distance: np.exp((1 - distance) / temperature)
    ).fit(x.numpy(), y.numpy())
    ours = knn_predict(queries, x, y, k=k, temperature=temperature, classes=5)
    assert ours.tolist() == theirs.predict(queries.numpy()).tolist()
    assert accuracy(ours, truth) == theirs.score(queries.numpy(), truth.numpy())
    logits = knn_logits(queries, x, y, k=k, temperature=temperature, classes=5)
    assert torch.allclose(
        logits.softmax(1), torch.tensor(theirs.predict_proba(queries.numpy())).float(), atol=1e-4
    )


def test_parts_of_the_labelled_images_find_the_same_neighbours(monkeypatch):
    (x, y), (queries, _) = noisy(200, 0), noisy(50, 1)
    whole = knn_logits(queries, x, y, k=20, classes=5)
    monkeypatch.setattr("semppl.evaluate.knn._AT_A_TIME", 30)
    assert torch.allclose(knn_logits(queries, x, y, k=20, classes=5), whole, atol=1e-5)
    assert torch.allclose(knn_logits(queries, x, y, k=100, classes=5).softmax(1).sum(1), torch.ones(50))


def test_chance_on_random_features_and_all_right_on_separable_ones():
    (x, y), (queries, truth) = noisy(500, 0, separation=0.0), noisy(2000, 1, separation=0.0)
    assert accuracy(knn_predict(queries, x, y, k=20, classes=5), truth) == pytest.approx(0.2, abs=0.03)
    (x, y), (queries, truth) = noisy(50, 0, separation=20.0), noisy(200, 1, separation=20.0)
    assert accuracy(knn_predict(queries, x, y, k=5, classes=5), truth) == 1


def test_no_temperature_lets_all_votes_vanish():
    far = torch.tensor([[-1.0, 0.0], [-1.0, 0.1]])
    logits = knn_logits(
        torch.tensor([[1.0, 0.0]]), far, torch.tensor([0, 1]), k=2, temperature=1e-3, classes=3
    )
    assert logits.argmax(1).tolist() == [1]
    assert logits[0, 2] == -torch.inf


def test_weighted_votes_by_hand():
    labelled = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    labels = torch.tensor([0, 1, 1])
    query = torch.tensor([[1.0, 0.0]])
    # weights e^{(cos − 1)/T}: 1 against e^{−0.2/T} + e^{−0.4/T}
    assert math.exp(-0.2) + math.exp(-0.4) > 1 > math.exp(-2) + math.exp(-4)
    assert knn_predict(query, labelled, labels, k=3, temperature=1.0, classes=2).tolist() == [1]
    assert knn_predict(query, labelled, labels, k=3, temperature=0.1, classes=2).tolist() == [0]
    assert knn_predict(query, labelled, labels, k=1, temperature=1.0, classes=2).tolist() == [0]


def test_length_of_a_feature_does_not_matter_and_k_may_exceed_the_labels():
    labelled = torch.tensor([[100.0, 0.0], [0.0, 0.01]])
    query = torch.tensor([[0.1, 0.9]])
    assert knn_predict(query, labelled, torch.tensor([0, 1]), k=9, classes=2).tolist() == [1]


def test_accuracy_by_hand():
    assert accuracy(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 0, 0])) == 0.5
