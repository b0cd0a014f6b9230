import pytest
import torch

from semppl.evaluate import lbfgs as module
from semppl.evaluate.lbfgs import Evaluation, _Path, _turn_, minimise


def bowls(count, dim, seed=0, worst=100.0):
    """½(x − m)ᵀQ(x − m) with random Q, as an objective and its minima."""
    rng = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(count, dim, dim, generator=rng).double())[0]
    Q = turn @ torch.diag_embed(worst ** torch.rand(count, dim, generator=rng).double()) @ turn.mT
    minima = torch.randn(count, dim, generator=rng).double()

    def objective(points, which):
        away = points - minima[which]
        slopes = (Q[which] @ away[:, :, None]).squeeze(2)
        return Evaluation(0.5 * (slopes * away).sum(1), slopes, slopes.norm(dim=1))

    return objective, minima


def test_the_minima_of_bowls():
    objective, minima = bowls(6, 8)
    found = minimise(objective, torch.zeros(6, 8).double(), tolerance=1e-9)
    assert torch.allclose(found.point_SD, minima, atol=1e-8)
    assert found.converged_S.all()
    assert (found.iterations_S < 60).all()


def test_company_changes_nothing():
    objective, _ = bowls(5, 6)
    together = minimise(objective, torch.ones(5, 6).double(), tolerance=1e-8)
    for s in range(5):
        alone = minimise(
            lambda x, _, s=s: objective(x, torch.tensor([s])), torch.ones(1, 6).double(), tolerance=1e-8
        )
        assert torch.allclose(alone.point_SD[0], together.point_SD[s], atol=1e-12)
        assert alone.iterations_S[0] == together.iterations_S[s]


def test_problems_at_rest_are_not_evaluated_for_long():
    objective, minima = bowls(4, 6)
    start = minima.clone()
    start[2] += 1
    asked = []

    def watched(points, which):
        asked.append(which.tolist())
        return objective(points, which)

    found = minimise(watched, start, tolerance=1e-8)
    assert asked[0] == [0, 1, 2, 3]
    assert all(which == [2] for which in asked[1:])
    assert found.iterations_S.tolist() == [0, 0, len(asked) - 1, 0]
    assert torch.equal(found.point_SD[[0, 1, 3]], start[[0, 1, 3]])


def test_a_direction_is_that_of_the_dense_inverse_hessian(monkeypatch):
    monkeypatch.setattr(module, "_PAIRS", 4)
    rng = torch.Generator().manual_seed(1)
    count, dim, slot = 3, 5, 1
    Q = torch.randn(dim, dim, generator=rng).double()
    Q = Q @ Q.T + torch.eye(dim)
    steps = torch.randn(count, 4, dim, generator=rng).double()
    steps[0, 3] = 0  # not taken
    steps[1, 2:] = 0  # a path that has just begun
    changes = steps @ Q
    slope = torch.randn(count, dim, generator=rng).double()
    memory = torch.cat([steps, changes], dim=1)
    ones = torch.ones(count).double()
    path = _Path(
        torch.arange(count),
        slope,
        Evaluation(ones, slope, ones),
        slope,
        ones,
        ones,
        memory,
        memory @ memory.mT,
    )
    _turn_(path, torch.tensor([True, True, False]), slot)
    for i in range(2):
        s, y = steps[i, slot], changes[i, slot]
        H = (s @ y) / (y @ y) * torch.eye(dim).double()
        for place in (2, 3, 0, 1):  # oldest first
            s, y = steps[i, place], changes[i, place]
            if s @ y > 0:
                V = torch.eye(dim).double() - torch.outer(y, s) / (s @ y)
                H = V.T @ H @ V + torch.outer(s, s) / (s @ y)
        assert torch.allclose(path.toward_AD[i], -H @ slope[i], atol=1e-10)
    assert torch.equal(path.toward_AD[2], slope[2]), (
        "it keeps the direction in which it looks for a shorter step"
    )


def test_a_wall_and_a_step_that_is_far_too_long():
    """−log(1 − x) − log(x) has its minimum at ½; the first step from the edge leads out of its domain."""

    def objective(points, which):
        slopes = 1 / (1 - points) - 1 / points
        return Evaluation((-(1 - points).log() - points.log()).sum(1), slopes, slopes.norm(dim=1))

    found = minimise(objective, torch.tensor([[1e-3, 0.9], [0.4, 0.5]]).double(), tolerance=1e-8)
    assert torch.allclose(found.point_SD, torch.full((2, 2), 0.5).double(), atol=1e-8)


def test_the_limit_and_rounding_end_what_has_no_end():
    objective, _ = bowls(2, 8)
    start = torch.zeros(2, 8).double()
    found = minimise(objective, start, tolerance=1e-9, max_iterations=3)
    assert found.iterations_S.tolist() == [3, 3]
    assert not found.converged_S.any()
    assert (
        objective(found.point_SD, torch.arange(2)).value_A < objective(start, torch.arange(2)).value_A
    ).all()
    found = minimise(objective, start, tolerance=0.0, max_iterations=400)
    assert objective(found.point_SD, torch.arange(2)).size_A.max() < 1e-8


@pytest.mark.parametrize("count", [1, 3])
def test_in_float32(count):
    objective, minima = bowls(count, 8)

    def single(points, which):
        return Evaluation(*(part.float() for part in objective(points.double(), which)))

    found = minimise(single, torch.zeros(count, 8), tolerance=1e-4)
    assert found.converged_S.all()
    assert torch.allclose(found.point_SD.double(), minima, atol=1e-3)
