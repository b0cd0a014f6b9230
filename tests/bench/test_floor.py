import pytest
import torch

from semppl.bench.floor import floor_step
from semppl.bench.workload import build_workload
from semppl.train.step import augmented, tick_of


def prepared(tiny, **method):
    training = build_workload(tiny, **method).training
    rng = tick_of(training.plan, 0, training.device).draw("photometric")
    return training.state, training.plan, augmented(training.feed(0), training.plan, rng)


def test_the_floor_is_both_encoders_forward_and_one_backward_and_nothing_else(tiny):
    state, plan, views_A = prepared(tiny)
    weights = {name: p.clone() for name, p in state.online.named_parameters()}
    seen = {"online": 0, "target": 0, "heads": 0}
    state.online.encoder.register_forward_hook(lambda *_: seen.update(online=seen["online"] + 1))
    state.target.module.encoder.register_forward_hook(lambda *_: seen.update(target=seen["target"] + 1))
    for head in (state.online.projector, state.predictor, state.target.module.projector):
        head.register_forward_hook(lambda *_: seen.update(heads=seen["heads"] + 1))
    step = floor_step(state, plan, views_A)
    for _ in range(2):
        step()
    assert seen == {"online": 6, "target": 4, "heads": 0}
    assert all(p.grad is not None for p in state.online.encoder.parameters())
    assert all(p.grad is None for p in state.online.projector.parameters())
    assert all(torch.equal(p, weights[name]) for name, p in state.online.named_parameters())


def test_gradients_do_not_pile_up(tiny):
    state, plan, views_A = prepared(tiny)
    step = floor_step(state, plan, views_A)
    step()
    first = state.online.encoder.conv1.weight.grad.clone()
    step()
    assert torch.equal(state.online.encoder.conv1.weight.grad, first)


def test_a_method_without_target_has_another_floor(tiny):
    state, plan, views_A = prepared(tiny, objective="simclr")
    with pytest.raises(ValueError, match="target"):
        floor_step(state, plan, views_A)
