import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from semppl.data.splits import hold_out
from semppl.evaluate.linear import (
    STRENGTHS,
    fit_linear,
    fit_validated,
    layer_losses,
    layer_scores,
    left_out_logits,
    linear_predict,
    standard,
)
from semppl.evaluate.logistic import NEVER, fit_logistic


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


def noisy(count, dim, classes, *, seed=0, apart=0.5):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    return apart * torch.randn(classes, dim, generator=rng)[labels] + torch.randn(
        count, dim, generator=rng
    ), labels


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(("per_class", "dim"), [(2, 40), (8, 40), (20, 5)])
def test_the_choice_and_the_fit_are_scikit_learns(classes, per_class, dim):
    features, labels = noisy(classes * per_class, dim, classes, seed=classes)
    mean, scale = standard(features.double())
    x, y = ((features.double() - mean) / scale).numpy(), labels.numpy()
    # scikit-learn's own tolerance stops it far from the minimum
    model = LogisticRegression(tol=1e-9, max_iter=10_000)
    folds = StratifiedKFold(min(per_class, 5), shuffle=True, random_state=3)
    search = GridSearchCV(model, {"C": STRENGTHS}, cv=folds).fit(x, y)
    fit = fit_linear(features, labels, classes=classes, seed=3)
    # of equals scikit-learn takes the first, we that with the least cross-entropy
    best = search.cv_results_["rank_test_score"] == 1
    assert fit.strength in np.array(STRENGTHS)[best]
    if best.sum() == 1:
        assert fit.strength == search.best_params_["C"]
    model = LogisticRegression(tol=1e-9, max_iter=10_000, C=fit.strength).fit(x, y)
    assert fit.chosen == f"penalty chosen by {min(per_class, 5)}-fold cross-validation inside the labels"
    queries, _ = noisy(200, dim, classes, seed=9)
    ours = fit.logits(queries)
    theirs = torch.tensor(model.decision_function(((queries.double() - mean) / scale).numpy()))
    if classes == 2:
        assert torch.allclose(ours[:, 1], theirs, atol=1e-3 * float(theirs.abs().max()))
    else:
        ours, theirs = (logits - logits.mean(1, keepdim=True) for logits in (ours, theirs))
        assert torch.allclose(ours, theirs, atol=1e-3 * float(theirs.abs().max()))


def test_one_class_is_always_answered():
    fitted = fit_linear(torch.randn(4, 3), torch.full((4,), 2), classes=4)
    assert (fitted.logits(torch.randn(20, 3)).argmax(1) == 2).all()


def test_more_than_float64_can_hold_is_fitted_in_float32(monkeypatch):
    features, labels = noisy(60, 10, 3)
    exact = fit_linear(features, labels, classes=3)
    monkeypatch.setattr("semppl.evaluate.linear._EXACT", 100)
    rough = fit_linear(features, labels, classes=3, device="cpu")
    assert rough.weight_YF.dtype == torch.double
    assert torch.allclose(rough.logits(features), exact.logits(features), atol=0.05)


def test_a_penalty_chosen_on_validation_is_fitted_on_both_parts():
    features, labels = noisy(105, 30, 3)
    (x, other), (y, truth) = features.split((60, 45)), labels.split((60, 45))
    penalties = (1e-3, 1.0, 1e3, 1e5)
    fit, penalty, score = fit_validated((x, y), (other, truth), penalties, classes=3)
    scale = standard(x)[1]
    right = []
    for each in penalties:
        one = fit_logistic(x, y, classes=3, penalty_S=each * scale[None] ** 2)
        answers = (other @ one.weight_SYF[0].T + one.bias_SY[0]).argmax(1)
        right.append(int((answers == truth).sum()))
    assert (penalty, score) == (penalties[right.index(max(right))], max(right) / 45)
    both, labels = torch.cat([x, other]), torch.cat([y, truth])
    expected = fit_logistic(both, labels, classes=3, penalty_S=penalty * standard(both)[1][None] ** 2)
    assert torch.allclose(fit.weight_YF, expected.weight_SYF[0].double(), atol=1e-6)


def test_layers_are_scored_by_counting(monkeypatch):
    monkeypatch.setattr("semppl.evaluate.linear._SCORED", 7)
    rng = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(4, 5, 3, generator=rng), torch.randn(4, 5, generator=rng)
    weight[2, 1, 1], bias[3, 0] = torch.nan, torch.inf
    x, truth = torch.randn(50, 3, generator=rng), torch.arange(50) % 3
    plain, mean = (layer_scores(weight, bias, x, truth, per_class=flag) for flag in (False, True))
    for s in range(2):
        right = (x @ weight[s].T + bias[s]).argmax(1) == truth
        assert plain[s] == int(right.sum()) / 50
        assert mean[s] == pytest.approx(sum(float(right[truth == c].double().mean()) for c in range(3)) / 3)
    assert plain[2:].tolist() == mean[2:].tolist() == [-1, -1]


def test_of_many_labels_a_fifth_chooses_once_among_fits_of_all_others(monkeypatch):
    features, labels = noisy(200, 20, 4, seed=1)
    few = fit_linear(features, labels, classes=4)
    monkeypatch.setattr("semppl.evaluate.linear._MOST", 100)
    fit = fit_linear(features, labels, classes=4)
    assert fit.chosen == "penalty chosen on 40 of the labels"
    # by hand: the same images set aside, each strength fitted on the others
    _, apart = hold_out(labels, 0.2, 0)
    held = apart >= 0
    _, scale = standard(features.double())
    rows = (~held)[None].expand(len(STRENGTHS), -1)
    strengths = torch.tensor(STRENGTHS, dtype=torch.double) / 2  # twice as many labels as folds are made of
    penalties = float(scale) ** 2 / strengths
    fits = fit_logistic(
        features.double(), labels, classes=4, penalty_S=penalties, rows_SN=rows, tolerance=1e-6
    )
    scores = layer_scores(fits.weight_SYF, fits.bias_SY, features[held], labels[held])
    losses = layer_losses(fits.weight_SYF, fits.bias_SY, features[held], labels[held])
    best = min(range(7), key=lambda i: (-float(scores[i]), float(losses[i])))
    assert fit.strength == float(strengths[best])
    monkeypatch.setattr("semppl.evaluate.linear._MOST_HELD", 10)
    assert fit_linear(features, labels, classes=4).chosen == "penalty chosen on 10 of the labels"
    assert few.chosen == "penalty chosen by 5-fold cross-validation inside the labels"


def test_a_single_label_of_a_class_leaves_nothing_to_choose_with():
    features, _ = noisy(10, 5, 3)
    fit = fit_linear(features[:4], torch.tensor([0, 0, 1, 2]), classes=3)
    assert (fit.strength, fit.chosen) == (1.0, "penalty 1, not chosen, for a class has a single label")


def test_logits_of_many_images_are_made_in_parts(monkeypatch):
    features, labels = noisy(50, 5, 3)
    fit = fit_linear(features, labels, classes=3)
    whole = fit.logits(features)
    monkeypatch.setattr("semppl.evaluate.linear._CONVERTED", 7)
    assert torch.allclose(fit.logits(features), whole)


def test_the_cross_entropy_of_layers_by_hand():
    weight, bias = torch.zeros(2, 3, 1), torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, -1e9]])
    features, labels = torch.zeros(2, 1), torch.tensor([0, 2])
    ln_e_1 = float(torch.tensor([1.0, 0.0]).logsumexp(0))
    expected = [float(np.log(3)), (ln_e_1 - 1 + 30) / 2]
    assert layer_losses(weight, bias, features, labels).tolist() == pytest.approx(expected)


def test_of_penalties_with_equal_accuracy_that_with_the_better_probabilities_is_taken():
    features, labels = blobs(10, 0.3, seed=0)  # all strengths separate it
    fit = fit_linear(features, labels, classes=3)
    chance = fit.logits(features).softmax(1).gather(1, labels[:, None])
    assert chance.min() > 0.9, "sure, and rightly so"


def test_a_given_strength_is_not_chosen():
    train, labels = blobs(6, 0.3, seed=0)
    given = fit_linear(train, labels, classes=3, strength=0.01)
    scale = train.double().std(0, correction=0).square().mean().sqrt()
    reference = LogisticRegression(C=0.01, tol=1e-8).fit((train.double() / scale).numpy(), labels.numpy())
    assert given.strength == 0.01
    assert torch.allclose(given.weight_YF * scale, torch.from_numpy(reference.coef_), atol=1e-4)


def test_labels_left_out_are_answered_by_fits_to_the_others():
    train, labels = blobs(7, 2.0, seed=3)
    labels = 2 * labels  # classes 1 and 3 have no label
    logits, truth = left_out_logits(train, labels, classes=5, strength=0.1, seed=4)
    scale = train.double().var(0, correction=0).mean().sqrt()
    scaled, at = (train.double() / scale).numpy(), 0
    for rest, test in StratifiedKFold(5, shuffle=True, random_state=4).split(train, labels):
        fit = LogisticRegression(C=0.1, tol=1e-10, max_iter=1000).fit(scaled[rest], labels[rest])
        expected = torch.from_numpy(fit.decision_function(scaled[test])).softmax(1)
        part = slice(at, at := at + len(test))
        assert torch.equal(truth[part], labels[test])
        assert torch.allclose(logits[part].softmax(1)[:, ::2], expected, atol=1e-5)
    assert at == len(truth) == len(logits) == 21
    assert (logits[:, 1::2] == NEVER).all()


@pytest.mark.parametrize("most", [2000, 20])
def test_the_single_label_of_a_class_stays_and_the_others_are_left_out(monkeypatch, most):
    monkeypatch.setattr("semppl.evaluate.linear._MOST", most)
    train, labels = blobs(9, 0.3, seed=0)
    labels[-9:] = torch.tensor([2] + 8 * [1])
    logits, truth = left_out_logits(train, labels, classes=3, strength=1.0)
    assert 2 not in truth
    assert len(truth) == (26 if most == 2000 else 5), "all others in turn, or a fifth of many once"
    assert (logits[:, 2] > -100).all(), "its class can be answered"


def test_where_all_labels_are_single_none_can_be_left_out():
    train, labels = blobs(1, 0.1, seed=0)
    assert left_out_logits(train, labels, classes=3, strength=1.0) is None
