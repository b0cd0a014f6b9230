import pytest
import torch

from semppl.evaluate.knn import knn_logits
from semppl.evaluate.linear import fit_linear
from semppl.protocols import frozen
from semppl.protocols.frozen import exam_features, knn, labelled_features, linear, linear_sgd
from semppl.views.whole import whole_crop, whole_view


def given(subject):
    labels = subject.task.labels
    return labelled_features(subject, labels), labels.labels_M[labels.all_L]


def test_features_are_of_the_runs_encoder_on_whole_images(subject):
    desk, task = subject.desk, subject.task
    encoder = subject.online.encoder.eval()
    with torch.no_grad():
        views = whole_view(whole_crop(desk.size, desk.dataset.images[task.labels.all_L]), *desk.statistics)
        assert torch.allclose(given(subject)[0], encoder(views), atol=1e-5)
        views = whole_view(whole_crop(desk.size, task.exam.images), *desk.statistics)
        assert torch.allclose(exam_features(subject), encoder(views), atol=1e-5)


def test_knn_is_of_all_given_labels_with_the_k_and_temperature_that_were_asked_for(
    trained, subject_of, answered
):
    subject = subject_of(trained, k=3, temperature=0.2)
    outcome = knn(subject)
    expected = knn_logits(exam_features(subject), *given(subject), k=3, temperature=0.2, classes=3)
    assert torch.equal(answered[0], expected)
    right = expected.argmax(1) == subject.task.truth_N
    assert 0 < right.float().mean() < 1, "a case that can tell"
    assert outcome.numbers[0].value == pytest.approx(100 * float(right.double().mean()))
    assert "cosine, k=3, T=0.2; 15 given labels; 30 test images" in outcome.protocol


def test_k_fits_the_labels_unless_it_is_given(trained, subject_of):
    assert knn(subject_of(trained)).settings["k"] == 9, "five labels of each class"
    assert knn(subject_of(trained, k=100)).settings["k"] == 15


def test_linear_is_fitted_on_all_given_labels(subject, answered):
    outcome = linear(subject)
    fit = fit_linear(*given(subject), classes=3)
    assert torch.allclose(answered[0], fit.logits(exam_features(subject)))
    assert sum(map(sum, outcome.details["metrics"]["confusion"])) == 30
    assert outcome.settings["strength"] == fit.strength
    assert "penalty chosen by 5-fold cross-validation inside the labels; 15 given" in outcome.protocol


def test_all_labels_may_be_asked_for(trained, subject_of):
    outcome = linear(subject_of(trained, labels="all"))
    assert "36 labels, all that are known of 36 images" in outcome.protocol


def test_sgd_trains_on_all_given_labels_with_two_seeds(trained, subject_of, monkeypatch):
    calls, real = [], frozen.train_probe

    def spy(*arguments, **how):
        calls.append(how)
        return real(*arguments, **how)

    monkeypatch.setattr(frozen, "train_probe", spy)
    outcome = linear_sgd(subject_of(trained, epochs=2, seeds=2))
    assert [(how["num_labels"], how["seed"], how["epochs"]) for how in calls] == [(15, 0, 2), (15, 1, 2)]
    assert outcome.settings == {"epochs": 2, "batch_size": 15, "seeds": [0, 1]}
    assert len(outcome.details["metrics"]) == 2
    assert outcome.numbers[0].deviation is not None
    assert "2 epochs, no weight decay" in outcome.protocol
    assert outcome.protocol.endswith("; 2 seeds")
    assert "crops of 20% to 100% and flips" in outcome.protocol
