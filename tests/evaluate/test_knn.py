import math

import torch

from semppl.evaluate.knn import accuracy, knn_predict


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
