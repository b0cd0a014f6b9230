import pytest
import torch
from torch import nn

from semppl.core.errors import UserError
from semppl.nets.encoder import ENCODERS, create_encoder


def _millions(module: nn.Module) -> float:
    return round(sum(parameter.numel() for parameter in module.parameters()) / 1e6, 3)


@pytest.mark.parametrize(
    ("name", "width", "features", "encoder", "with_classifier"),
    [
        ("resnet50", 1, 2048, 23.508, 25.557),
        ("resnet50", 2, 4096, 93.907, 98.004),
        ("resnet50", 4, 8192, 375.378, 383.571),
        ("resnet200", 2, 4096, 250.129, 254.226),
    ],
)
def test_the_papers_encoders_have_the_papers_number_of_parameters(
    name, width, features, encoder, with_classifier
):
    with torch.device("meta"):
        net = create_encoder(name, width=width)
        classified = nn.Sequential(net, nn.Linear(net.num_features, 1000))
    assert net.num_features == features
    assert _millions(net) == encoder
    assert _millions(classified) == with_classifier


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_the_number_in_a_name_counts_the_layers_on_the_longest_path(name):
    with torch.device("meta"):
        net = create_encoder(name)
    convolutions = [
        key for key, layer in net.named_modules() if isinstance(layer, nn.Conv2d) and "downsample" not in key
    ]
    assert len(convolutions) + 1 == int(name.removeprefix("resnet"))


def test_options_reach_the_network():
    net = create_encoder("resnet10", width=0.125, stem="small", last_scale=0.25)
    assert net.conv1.weight.shape == (8, 3, 3, 3)
    assert net.conv1.stride == (1, 1)
    assert (net.layer1[0].bn2.weight == 0.25).all()


def test_blocks_start_as_shortcuts_unless_told_otherwise():
    net = create_encoder("resnet10", width=0.125)
    assert net.conv1.kernel_size == (7, 7)
    assert (net.layer4[0].bn2.weight == 0).all()


def test_the_seed_decides_the_weights():
    encoders = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        encoders.append(create_encoder("resnet10", width=0.125).state_dict())
    first, same, other = encoders
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


def test_an_unknown_encoder_is_answered_with_those_that_exist():
    with pytest.raises(UserError, match="unknown encoder 'resnet51'") as caught:
        create_encoder("resnet51")
    for name in ENCODERS:
        assert name in str(caught.value)


def test_selective_kernels_are_refused_until_they_exist():
    with pytest.raises(ValueError, match="selective kernels"):
        create_encoder("resnet50", sk=True)


def test_an_unknown_stem_is_answered_with_those_that_exist():
    with pytest.raises(ValueError, match="'cifar': choose from imagenet, small"):
        create_encoder("resnet10", stem="cifar")
