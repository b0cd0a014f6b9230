import math

import pytest
import torch
from torch import nn

from semppl.nets.initialise import create_linear, initialise_

_CASES = [
    (lambda: nn.Linear(100, 400), 100),
    (lambda: nn.Linear(9, 4000, bias=False), 9),
    (lambda: nn.Conv2d(16, 200, 3), 144),
    (lambda: nn.Conv2d(3, 300, 7, bias=False), 147),
    (lambda: nn.Conv2d(32, 1024, 3, groups=8), 36),
    (lambda: nn.Conv2d(256, 128, 1), 256),
]


@pytest.mark.parametrize(("create", "fan_in"), _CASES)
def test_weights_are_a_normal_of_one_over_root_fan_in_cut_at_two_sigma(create, fan_in):
    torch.manual_seed(0)
    layer = create()
    initialise_(layer)
    in_sigmas = layer.weight.detach().double() * math.sqrt(fan_in)
    assert in_sigmas.abs().max() <= 2 + 1e-6
    assert in_sigmas.abs().max() > 1.95
    assert in_sigmas.std().item() == pytest.approx(0.8796, rel=0.02)
    assert abs(in_sigmas.mean()) < 0.02


def test_the_cut_normal_has_the_quantiles_of_a_normal_without_its_tails():
    torch.manual_seed(0)
    layer = nn.Linear(25, 4000)
    initialise_(layer)
    share_within_one_sigma = (layer.weight.abs() < 1 / 5).float().mean().item()
    # P(|z| < 1)/P(|z| < 2) = 0.6827/0.9545
    assert share_within_one_sigma == pytest.approx(0.7152, abs=0.01)


def test_biases_become_zero():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 5))
    nn.init.ones_(module[0].bias)
    nn.init.ones_(module[2].bias)
    initialise_(module)
    assert not module[0].bias.any()
    assert not module[2].bias.any()


def test_layers_inside_of_modules_are_found_and_norms_are_left_alone():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Sequential(nn.Linear(16, 8)), nn.BatchNorm1d(8))
    nn.init.constant_(module[0][0].weight, 9.0)
    nn.init.constant_(module[1].weight, 0.3)
    nn.init.constant_(module[1].bias, 0.7)
    initialise_(module)
    assert module[0][0].weight.abs().max() <= 2 / 4
    assert (module[1].weight == 0.3).all()
    assert (module[1].bias == 0.7).all()


def test_a_layer_from_a_generator_disturbs_no_other_draw():
    before = torch.get_rng_state()
    one, same, other = (create_linear(64, 10, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    assert one.weight.abs().max() <= 2 / 8
    assert not one.bias.any()
