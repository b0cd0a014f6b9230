import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from semppl.evaluate import logistic as module
from semppl.evaluate.logistic import NEVER, fit_logistic


def blobs(count, dim, classes, *, seed=0, apart=0.7):
    """Overlapping classes of unequal spread, not centred."""
    centres = apart * torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    noise = torch.randn(count, dim, generator=rng) * torch.linspace(0.2, 2, dim)
    return (centres[labels] + noise + 1).double(), labels


def folds(count, k):
    """Row s may not see every k-th."""
    return torch.arange(count) % k != torch.arange(k)[:, None]


def theirs(x, y, penalty):
    c = (2 if len(y.unique()) == 2 else 1) / penalty
    return LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(x.numpy(), y.numpy())


def logits_of(fit, s, x):
    logits = x @ fit.weight_SYF[s].T + fit.bias_SY[s]
    return logits - logits.mean(1, keepdim=True)


@pytest.mark.parametrize(("count", "dim", "classes"), [(90, 6, 2), (100, 6, 5), (40, 60, 5), (40, 60, 2)])
def test_weights_are_scikit_learns(count, dim, classes):
    x, y = blobs(count, dim, classes)
    penalties, rows = torch.tensor([0.1, 1.0, 30.0, 1e3]), folds(count, 4)
    fit = fit_logistic(
        x,
        y,
        classes=classes,
        penalty_S=penalties.repeat_interleave(4),
        rows_SN=rows.repeat(4, 1),
        tolerance=1e-9,
    )
    assert fit.converged_S.all()
    for s, penalty in enumerate(penalties.repeat_interleave(4).tolist()):
        seen = rows[s % 4]
        reference = theirs(x[seen], y[seen], penalty)
        expected = torch.tensor(reference.decision_function(x.numpy()))
        if classes == 2:
            expected = torch.stack([-expected / 2, expected / 2], 1)
        expected = expected - expected.mean(1, keepdim=True)
        ours = logits_of(fit, s, x)
        assert (ours - expected).abs().max() < 1e-4 * expected.abs().max()
        assert ours.argmax(1).tolist() == reference.predict(x.numpy()).tolist()


def test_the_gradient_is_zero():
    x, y = blobs(60, 5, 3)
    weights = torch.rand(2, 60, generator=torch.Generator().manual_seed(0)).double()
    penalty = torch.tensor([0.5, 20.0]).double()
    fit = fit_logistic(x, y, classes=3, penalty_S=penalty, rows_SN=weights, tolerance=1e-9)
    W, b = fit.weight_SYF.clone().requires_grad_(), fit.bias_SY.clone().requires_grad_()
    for s in range(2):
        loss = (weights[s] * F.cross_entropy(x @ W[s].T + b[s], y, reduction="none")).sum()
        (loss + 0.5 * penalty[s] * W[s].square().sum()).backward()
    assert W.grad.abs().max() < 1e-6
    assert b.grad.abs().max() < 1e-6


def test_a_row_that_counts_twice_is_two_rows():
    x, y = blobs(30, 4, 3)
    twice = torch.where(torch.arange(30) < 10, 2.0, 1.0)[None]
    one = torch.tensor([1.0])
    weighed = fit_logistic(x, y, classes=3, penalty_S=one, rows_SN=twice, tolerance=1e-9)
    copied = fit_logistic(
        torch.cat([x, x[:10]]), torch.cat([y, y[:10]]), classes=3, penalty_S=one, tolerance=1e-9
    )
    assert torch.allclose(weighed.weight_SYF, copied.weight_SYF, atol=1e-7)


def test_all_right_on_separable_data_and_chance_on_random_labels():
    x, y = blobs(60, 10, 4, apart=10)
    fit = fit_logistic(x, y, classes=4, penalty_S=torch.tensor([0.01, 1.0]))
    for s in range(2):
        assert torch.equal(logits_of(fit, s, x).argmax(1), y)
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(3000, 10, generator=rng), torch.randint(4, (3000,), generator=rng)
    fit = fit_logistic(x[:1000], y[:1000], classes=4, penalty_S=torch.tensor([1.0]))
    right = logits_of(fit, 0, x[1000:]).argmax(1) == y[1000:]
    assert right.float().mean() == pytest.approx(0.25, abs=0.04)


def test_company_changes_nothing():
    x, y = blobs(80, 12, 4)
    penalties, rows = 10.0 ** torch.linspace(-2, 3, 10), folds(80, 10)
    together = fit_logistic(x, y, classes=4, penalty_S=penalties, rows_SN=rows, tolerance=1e-9)
    for s in range(10):
        alone = fit_logistic(
            x, y, classes=4, penalty_S=penalties[s : s + 1], rows_SN=rows[s : s + 1], tolerance=1e-9
        )
        assert torch.allclose(alone.weight_SYF[0], together.weight_SYF[s], atol=1e-6)
        assert torch.allclose(alone.bias_SY[0], together.bias_SY[s], atol=1e-6)


@pytest.mark.parametrize("dim", [6, 90])
@pytest.mark.parametrize(
    "small",
    [
        {"_LOGITS": {"cpu": 1}, "_FEWEST": 7, "_CHUNK": 9},
        {"_STATE": {"cpu": 1}},
        {"_READY": {"cpu": 0}},
        {"_READY": {"cpu": 0}, "_FEWEST": 7, "_LOGITS": {"cpu": 1}, "_CHUNK": 9, "_MOST_AXES": 3},
    ],
    ids=["rows", "problems", "nothing kept", "no axes"],
)
def test_a_chunk_at_a_time_is_the_same(monkeypatch, small, dim):
    x, y = blobs(40, dim, 3)
    given = {"classes": 3, "penalty_S": torch.tensor([0.1, 1.0, 10.0]), "rows_SN": folds(40, 3)}
    whole = fit_logistic(x, y, **given, tolerance=1e-9)
    for name, value in small.items():
        monkeypatch.setattr(module, name, value)
    parts = fit_logistic(x, y, **given, tolerance=1e-9)
    assert torch.allclose(parts.weight_SYF, whole.weight_SYF, atol=1e-7)
    assert torch.allclose(parts.bias_SY, whole.bias_SY, atol=1e-7)
    assert parts.converged_S.all()


def test_features_may_be_a_file(tmp_path, monkeypatch):
    x, y = blobs(50, 6, 3)
    x.float().numpy().tofile(tmp_path / "x")
    mapped = torch.from_numpy(np.memmap(tmp_path / "x", dtype=np.float32, mode="r+", shape=(50, 6)))
    penalty = torch.tensor([1.0])
    expected = fit_logistic(x, y, classes=3, penalty_S=penalty)
    monkeypatch.setattr(module, "_READY", {"cpu": 0})
    fit = fit_logistic(mapped, y, classes=3, penalty_S=penalty, device="cpu")
    assert fit.weight_SYF.dtype == torch.float32
    assert torch.allclose(fit.weight_SYF.double(), expected.weight_SYF, atol=1e-3)


def test_a_class_without_a_label_is_left_out_of_its_problem_alone():
    x, y = blobs(60, 5, 3)
    rows = torch.stack([y != 1, torch.ones(60).bool(), torch.zeros(60).bool(), y == 2])
    fit = fit_logistic(x, y, classes=4, penalty_S=torch.ones(4), rows_SN=rows, tolerance=1e-9)
    assert fit.converged_S.all()
    assert (fit.bias_SY == NEVER).tolist() == [
        [False, True, False, True],
        [False, False, False, True],
        [True] * 4,
        [True, True, False, True],
    ]
    assert fit.weight_SYF.isfinite().all()
    assert fit.weight_SYF[2:].abs().max() == 0, "nothing to tell apart"
    kept = y != 1
    reference = theirs(x[kept], y[kept], 0.5 * 2)
    expected = torch.tensor(reference.decision_function(x.numpy()))
    ours = x @ fit.weight_SYF[0].T + fit.bias_SY[0]
    assert torch.allclose(ours[:, 2] - ours[:, 0], expected, atol=1e-5)


def test_the_unit_of_the_features_does_not_matter():
    x, y = blobs(50, 6, 3)
    fit = fit_logistic(x, y, classes=3, penalty_S=torch.tensor([2.0]), tolerance=1e-7)
    large = fit_logistic(1e4 * x, y, classes=3, penalty_S=torch.tensor([2e8]), tolerance=1e-7)
    assert torch.allclose(1e4 * large.weight_SYF, fit.weight_SYF, atol=1e-6)
    assert large.iterations_S.tolist() == fit.iterations_S.tolist()
    constant = fit_logistic(torch.full((4, 2), 7.0), y[:4], classes=3, penalty_S=torch.ones(1))
    assert constant.weight_SYF.abs().max() == 0
    assert constant.converged_S.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels_N": torch.tensor([0, 3])}, "from 0 to 2"),
        ({"labels_N": torch.tensor([0])}, "do not fit 1 labels"),
        ({"penalty_S": torch.zeros(1)}, "positive"),
        ({"rows_SN": torch.ones(2, 2)}, "rows do not fit 1 × 2"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"labels_N": torch.tensor([0, 1]), "penalty_S": torch.ones(1), "classes": 3}
    with pytest.raises(ValueError, match=message):
        fit_logistic(torch.ones(2, 2), **{**given, **change})
