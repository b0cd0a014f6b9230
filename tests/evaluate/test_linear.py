import torch

from semppl.evaluate.linear import fit_linear, linear_predict


def blobs(per_class, spread, seed):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat_interleave(per_class)
    centres = 4 * torch.eye(3, 5)
    return centres[labels] + spread * torch.randn(len(labels), 5, generator=rng), labels


def test_separable_features_are_separated():
    train, labels = blobs(6, 0.3, seed=0)
    test, truth = blobs(20, 0.3, seed=1)
    assert torch.equal(linear_predict(test, train, labels), truth)


def test_one_label_for_each_class_is_enough_to_predict():
    train, labels = blobs(1, 0.1, seed=0)
    test, truth = blobs(10, 0.1, seed=1)
    assert (linear_predict(test, train, labels) == truth).float().mean() > 0.9


def test_a_constant_feature_does_no_harm():
    train, labels = blobs(6, 0.3, seed=0)
    test, truth = blobs(10, 0.3, seed=1)
    train, test = (torch.cat([f, torch.full((len(f), 1), 7.0)], dim=1) for f in (train, test))
    assert torch.equal(linear_predict(test, train, labels), truth)


def test_many_labels_choose_by_a_part_and_absent_classes_are_never_answered(monkeypatch):
    monkeypatch.setattr("semppl.evaluate.linear._MOST", 20)
    labels = torch.arange(60) % 3
    features = torch.nn.functional.one_hot(labels, 5).float() + 0.1 * torch.randn(60, 5)
    fitted = fit_linear(features, labels, classes=5)
    assert fitted.weight_YF.shape == (5, 5)
    assert torch.equal(fitted.logits(features).argmax(1), labels)


def test_two_classes_have_two_rows():
    labels = torch.arange(10) % 2
    features = torch.stack([labels.float(), torch.randn(10) * 0.01], 1)
    fitted = fit_linear(features, labels, classes=2)
    assert torch.equal(fitted.logits(features).argmax(1), labels)
    assert fitted.logits(features)[:, 0].abs().max() == 0, (
        "the first class is the zero that the other is told from"
    )
