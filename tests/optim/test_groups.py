from torch import nn

from semppl.optim.groups import decay_groups


def test_weights_decay_and_the_rest_does_not():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Linear(2, 2))
    weights, rest = decay_groups(model, 5e-4)
    assert [p.ndim for p in weights["params"]] == [4, 2]
    assert len(rest["params"]) == 4
    assert (weights["weight_decay"], rest["weight_decay"]) == (5e-4, 0.0)
    assert {*weights["params"], *rest["params"]} == {*model.parameters()}


def test_a_module_without_biases_has_an_empty_second_group():
    weights, rest = decay_groups(nn.Linear(2, 2, bias=False), 0.1)
    assert (len(weights["params"]), rest["params"]) == (1, [])
