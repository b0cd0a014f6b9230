import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from semppl.evaluate.linear import fit_linear
from semppl.protocols.frozen import exam_features, knn, labelled_features, linear, linear_sgd
from semppl.views.whole import whole_crop, whole_view


def value(outcome, name="top-1"):
    return next(number.value for number in outcome.numbers if number.name == name)


def test_features_are_of_the_runs_encoder_on_whole_images(subject):
    desk, task = subject.desk, subject.task
    encoder = subject.online.encoder.eval()
    with torch.no_grad():
        views = whole_view(whole_crop(desk.size, desk.dataset.images[task.all_L]), *desk.statistics)
        assert torch.allclose(labelled_features(subject), encoder(views), atol=1e-5)
        views = whole_view(whole_crop(desk.size, task.exam.images), *desk.statistics)
        assert torch.allclose(exam_features(subject), encoder(views), atol=1e-5)


def test_knn_is_scikit_learns(trained, subject_of):
    subject = subject_of(trained, k=3, temperature=0.2)
    x, y = labelled_features(subject), subject.task.labels_M[subject.task.all_L]
    theirs = KNeighborsClassifier(3, metric="cosine", weights=lambda d: np.exp((1 - d) / 0.2))
    theirs.fit(x.numpy(), y.numpy())
    right = theirs.predict(exam_features(subject).numpy()) == subject.task.truth_N.numpy()
    outcome = knn(subject)
    assert value(outcome) == pytest.approx(100 * right.mean())
    assert "cosine, k=3, T=0.2; 15 given labels; 12 test images" in outcome.protocol


def test_k_fits_the_labels_unless_it_is_given(trained, subject_of):
    assert knn(subject_of(trained)).settings["k"] == 9, "five labels of each class"
    assert knn(subject_of(trained, k=100)).settings["k"] == 15


def test_linear_is_fit_linear_on_all_given_labels(subject):
    x, y = labelled_features(subject), subject.task.labels_M[subject.task.all_L]
    right = fit_linear(x, y, classes=3).logits(exam_features(subject)).argmax(1) == subject.task.truth_N
    outcome = linear(subject)
    assert value(outcome) == pytest.approx(100 * float(right.float().mean()))
    assert sum(map(sum, outcome.details["metrics"]["confusion"])) == 12
    assert outcome.settings["strength"] > 0


def test_all_labels_may_be_asked_for(trained, subject_of):
    assert "36 true labels" in linear(subject_of(trained, labels="all")).protocol


def test_sgd_with_two_seeds(trained, subject_of):
    outcome = linear_sgd(subject_of(trained, epochs=2, seeds=2))
    assert outcome.settings == {"epochs": 2, "batch_size": 15, "seeds": [0, 1]}
    assert len(outcome.details["metrics"]) == 2
    assert outcome.numbers[0].deviation is not None
    assert "2 epochs" in outcome.protocol
