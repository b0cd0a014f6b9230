import math

import pytest
import torch
from torch import nn

from semppl.nets.encoder import create_encoder
from semppl.nets.heads import Projected, create_head
from semppl.nets.initialise import create_linear, initialise_, undrawn

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


def projected():
    return Projected(create_encoder("resnet10", width=0.125), create_head(64, 8, 4))


ANY = [
    lambda: create_encoder("resnet10", width=0.125, stem="small", last_scale=0.5),
    lambda: create_encoder("resnet50", width=0.25, padding="same"),
    lambda: create_encoder("resnet50", width=0.25, sk=True),
    lambda: create_encoder("wrn28-2", width=0.5),
    lambda: create_encoder("timm:test_resnet"),
    lambda: create_encoder("timm:eva02_tiny_patch14_224"),
    projected,
]


def tensors(network):
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


@pytest.mark.parametrize("create", ANY)
def test_filled_with_weights_it_has_every_tensor_of_the_network_that_was_saved(create):
    saved = create()
    for value in saved.state_dict().values():
        value.copy_(torch.randn(value.shape) * 100)
    again = undrawn(create)
    again.load_state_dict(saved.state_dict())
    mine, theirs = tensors(again), tensors(saved)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
    assert all(value.requires_grad == theirs[name].requires_grad for name, value in mine.items())


def test_one_of_them_has_tensors_that_are_not_saved():
    """So that the test above speaks of them, too."""
    network = create_encoder("timm:eva02_tiny_patch14_224")
    assert tensors(network).keys() - network.state_dict().keys()


def test_no_weights_are_drawn_inside_and_all_are_afterwards(monkeypatch):
    drawn, real = [], nn.init.trunc_normal_

    def spy(weight, **how):
        drawn.append(weight)
        return real(weight, **how)

    monkeypatch.setattr(nn.init, "trunc_normal_", spy)
    undrawn(projected)
    with pytest.raises(ZeroDivisionError):
        undrawn(lambda: 1 / 0)
    assert not drawn
    network = projected()
    assert len(drawn) == sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in network.modules())
