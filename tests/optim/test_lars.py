import copy
import io
import math

import pytest
import torch
from torch import Tensor, nn

from semppl.optim.lars import LARS

_SHAPES = {
    "bias": (5,),
    "kernel": (4, 3, 2, 2),
    "scale": (),
    "matrix": (3, 6),
    "zero_weight": (2, 4),
    "zero_gradient": (4, 2),
    "sometimes": (3, 3),
    "never": (2, 2),
    "offset": (7,),
}


def _start(dtype: torch.dtype) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = {
        name: nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.double).to(dtype))
        for name, shape in _SHAPES.items()
    }
    nn.init.zeros_(params["zero_weight"])
    return params


def _gradients(step: int) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(100 + step)
    grads: dict[str, Tensor | None] = {
        name: torch.randn(shape, generator=generator, dtype=torch.double) * 10 ** (step - 2)
        for name, shape in _SHAPES.items()
    }
    grads["zero_gradient"] = torch.zeros(_SHAPES["zero_gradient"], dtype=torch.double)
    grads["never"] = None
    if step % 2:
        grads["sometimes"] = None
    return grads


def _norm(x: list[float]) -> float:
    return math.sqrt(sum(value * value for value in x))


def _reference(
    weight: list[float],
    grads: list[list[float] | None],
    rates: list[float],
    *,
    adapted: bool,
    weight_decay: float,
    momentum: float = 0.9,
    trust: float = 1e-3,
) -> list[float]:
    """One tensor through all steps in Python's floats, number by number."""
    buffer = [0.0] * len(weight)
    for grad, lr in zip(grads, rates, strict=True):
        if grad is None:
            continue
        g = list(grad)
        if adapted:
            g = [a + weight_decay * w for a, w in zip(g, weight, strict=True)]
            w_norm, g_norm = _norm(weight), _norm(g)
            ratio = trust * w_norm / g_norm if w_norm > 0 and g_norm > 0 else 1.0
            g = [a * ratio for a in g]
        buffer = [momentum * m + a for m, a in zip(buffer, g, strict=True)]
        weight = [w - lr * m for w, m in zip(weight, buffer, strict=True)]
    return weight


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-6, 0.3])
def test_lars_is_the_formula_number_by_number(dtype, tolerance, weight_decay):
    rates = [0.0, 0.4, 4.8, 2.0, 0.1]
    params = _start(dtype)
    optimiser = LARS(params.values(), lr=0.0, weight_decay=weight_decay)
    history: dict[str, list[list[float] | None]] = {name: [] for name in params}
    before = {name: p.detach().double().flatten().tolist() for name, p in params.items()}
    for step, lr in enumerate(rates):
        for name, grad in _gradients(step).items():
            params[name].grad = None if grad is None else grad.to(dtype)
            seen = params[name].grad
            history[name].append(None if seen is None else seen.double().flatten().tolist())
        optimiser.param_groups[0]["lr"] = lr
        optimiser.step()
    for name, param in params.items():
        expected = _reference(
            before[name], history[name], rates, adapted=param.ndim > 1, weight_decay=weight_decay
        )
        found = param.detach().double().flatten().tolist()
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance), name
        still = name == "never" or (name == "zero_gradient" and not weight_decay)
        assert (found == before[name]) is still, name


def test_one_step_on_a_weight_by_hand():
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]]))
    weight.grad = torch.tensor([[0.0, 2.0]])
    LARS([weight], lr=2.0, weight_decay=0.0, trust=0.1).step()
    # ‖w‖ = 5, ‖g‖ = 2: the gradient becomes (0, 0.1·5/2·2) = (0, 0.5)
    assert torch.allclose(weight, torch.tensor([[3.0, 3.0]]))


def test_decay_comes_before_the_adaptation():
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]]))
    weight.grad = torch.tensor([[1.0, -2.0]])
    LARS([weight], lr=1.0, weight_decay=1.0, trust=0.1).step()
    # g + w = (4, 2) of norm √20, rescaled to norm 0.1·5
    expected = torch.tensor([[3.0, 4.0]]) - torch.tensor([[4.0, 2.0]]) * 0.5 / math.sqrt(20)
    assert torch.allclose(weight, expected)


def test_biases_and_norms_neither_decay_nor_adapt():
    params = [nn.Parameter(torch.tensor([5.0, -5.0])), nn.Parameter(torch.tensor(2.0))]
    params[0].grad, params[1].grad = torch.tensor([0.0, 1.0]), torch.tensor(-4.0)
    LARS(params, lr=0.5, weight_decay=100.0).step()
    assert params[0].tolist() == [5.0, -5.5]
    assert params[1].item() == 4.0


def test_the_rate_stands_outside_the_momentum():
    bias = nn.Parameter(torch.zeros(1))
    optimiser = LARS([bias], lr=1.0)
    for lr, expected in ((1.0, -1.0), (0.1, -1.19), (0.0, -1.19), (1.0, -4.629)):
        bias.grad = torch.ones(1)
        optimiser.param_groups[0]["lr"] = lr
        optimiser.step()
        # m = 1, 1.9, 2.71, 3.439 whatever the rates were
        assert bias.item() == pytest.approx(expected)


def test_scaling_the_loss_changes_no_adapted_weight_but_every_bias():
    results = []
    for scale in (1.0, 1024.0):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False))
        optimiser = LARS(net.parameters(), lr=3.0, weight_decay=0.0)
        x = torch.randn(8, 6)
        net.zero_grad()
        (scale * net(x).square().mean()).backward()
        optimiser.step()
        results.append([p.detach().clone() for p in net.parameters()])
    (first, first_bias, last), (scaled_first, scaled_bias, scaled_last) = results
    assert torch.allclose(first, scaled_first, rtol=1e-6, atol=1e-7)
    assert torch.allclose(last, scaled_last, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(first_bias, scaled_bias)


def test_the_gradients_are_left_as_they_were():
    params = _start(torch.float32)
    for name, grad in _gradients(2).items():
        params[name].grad = None if grad is None else grad.float()
    before = {name: None if p.grad is None else p.grad.clone() for name, p in params.items()}
    LARS(params.values(), lr=1.0, weight_decay=0.5).step()
    for name, grad in before.items():
        assert params[name].grad is grad is None or torch.equal(params[name].grad, grad), name


def test_every_group_has_options_of_its_own():
    def stepped(groups: list[dict[str, object]]) -> None:
        for group in groups:
            for p in group["params"]:
                p.grad = torch.ones_like(p)
        LARS(groups, lr=1.0, momentum=0.0, weight_decay=0.0, trust=0.1).step()

    first, second = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    stepped([{"params": [first]}, {"params": [second], "lr": 0.5, "trust": 0.4}])
    assert torch.allclose(first, torch.tensor(0.9))
    assert torch.allclose(second, torch.tensor(0.8))


def test_without_any_gradient_nothing_happens():
    weight = nn.Parameter(torch.ones(2, 2))
    optimiser = LARS([weight], lr=1.0, weight_decay=1.0)
    optimiser.step()
    assert (weight == 1).all()
    assert optimiser.state_dict()["state"] == {}


def _train(params: dict[str, nn.Parameter], optimiser: LARS, steps: range) -> None:
    for step in steps:
        for name, grad in _gradients(step % 5).items():
            params[name].grad = None if grad is None else grad.float()
        optimiser.param_groups[0]["lr"] = 0.1 * (step + 1)
        optimiser.step()


def test_a_restored_optimiser_continues_bit_by_bit():
    params = _start(torch.float32)
    optimiser = LARS(params.values(), lr=0.0, weight_decay=1e-3)
    _train(params, optimiser, range(4))

    file = io.BytesIO()
    torch.save(optimiser.state_dict(), file)
    file.seek(0)
    restored = copy.deepcopy(params)
    forgetful = copy.deepcopy(params)
    second = LARS(restored.values(), lr=9.0, weight_decay=9.0)
    second.load_state_dict(torch.load(file, weights_only=True))

    _train(params, optimiser, range(4, 9))
    _train(restored, second, range(4, 9))
    _train(forgetful, LARS(forgetful.values(), lr=0.0, weight_decay=1e-3), range(4, 9))
    assert all(torch.equal(params[name], restored[name]) for name in params)
    assert not torch.equal(params["matrix"], forgetful["matrix"])


def test_a_closure_is_called_once_with_gradients_on_and_its_loss_is_returned():
    bias = nn.Parameter(torch.tensor([3.0]))
    optimiser = LARS([bias], lr=0.25)
    calls = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        optimiser.zero_grad()
        loss = bias.square().sum()
        loss.backward()
        return loss.item()

    with torch.no_grad():
        assert optimiser.step(closure) == 9.0
    assert calls == [True]
    assert bias.item() == 1.5
    assert optimiser.step() is None


@pytest.mark.parametrize("name", ["lr", "momentum", "weight_decay"])
def test_negative_values_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"{name} must not be negative, but is -0.1"):
        LARS([nn.Parameter(torch.ones(1))], **{"lr": 0.1, name: -0.1})


def test_a_rate_on_the_device_gives_the_same_step_and_may_be_changed_in_place():
    one, other = _start(torch.float32), _start(torch.float32)
    rate = torch.tensor(0.0)
    first, second = (
        LARS(one.values(), lr=0.0, weight_decay=1e-3),
        LARS(other.values(), lr=rate, weight_decay=1e-3),
    )
    for step, lr in enumerate([0.5, 0.0, 2.0]):
        for params in (one, other):
            for name, grad in _gradients(step).items():
                params[name].grad = None if grad is None else grad.float()
        first.param_groups[0]["lr"] = lr
        rate.fill_(lr)
        first.step()
        second.step()
    for name, expected in one.items():
        torch.testing.assert_close(other[name], expected, msg=name)
