import pytest
import torch
from torch import nn
from torch.nn import functional as F

from semppl.core.errors import UserError
from semppl.nets.encoder import ENCODERS, create_encoder
from semppl.nets.padding import PADDINGS, pad_same_
from semppl.nets.resnet import BasicBlock, Bottleneck, ResNet
from semppl.nets.selective_kernel import SelectiveBottleneck


def _millions(module: nn.Module) -> float:
    return round(sum(parameter.numel() for parameter in module.parameters()) / 1e6, 3)


@pytest.mark.parametrize(
    ("name", "width", "sk", "features", "encoder", "with_classifier"),
    [
        ("resnet50", 1, False, 2048, 23.508, 25.557),
        ("resnet50", 2, False, 4096, 93.907, 98.004),
        ("resnet50", 4, False, 8192, 375.378, 383.571),
        ("resnet200", 2, False, 4096, 250.129, 254.226),
        ("resnet50", 1, True, 2048, 25.431, 27.480),
        ("resnet50", 2, True, 4096, 101.264, 105.361),
        ("resnet200", 2, True, 4096, 276.005, 280.102),
    ],
)
def test_the_papers_encoders_have_the_papers_number_of_parameters(
    name, width, sk, features, encoder, with_classifier
):
    with torch.device("meta"):
        net = create_encoder(name, width=width, sk=sk)
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


def test_selective_kernels_need_a_bottleneck():
    with pytest.raises(ValueError, match="resnet18: selective kernels are for resnet50 and deeper"):
        create_encoder("resnet18", sk=True)


def test_an_unknown_stem_or_padding_is_answered_with_those_that_exist():
    with pytest.raises(ValueError, match="stem 'cifar': choose from imagenet, small"):
        create_encoder("resnet10", stem="cifar")
    with pytest.raises(ValueError, match="padding 'valid': choose from symmetric, same"):
        create_encoder("resnet10", padding="valid")


def test_what_is_ours_is_refused_for_models_of_timm():
    for option in ({"sk": True}, {"padding": "same"}):
        with pytest.raises(ValueError, match="for our own ResNets"):
            create_encoder("timm:resnet18", **option)
    with pytest.raises(ValueError, match=r"timm:resnet18 has one width, which is 1, not 2 \(--net.width 1\)"):
        create_encoder("timm:resnet18", width=2)


EVERY = [
    *(("resnet50", sk, padding) for sk in (False, True) for padding in PADDINGS),
    # more of the same blocks
    ("resnet200", False, "symmetric"),
    ("resnet200", True, "same"),
    *((name, False, "symmetric") for name in ("resnet10", "resnet18", "resnet34", "resnet101", "resnet152")),
]


@pytest.mark.parametrize(("name", "width"), [("resnet50", 1), ("resnet50", 4), ("resnet200", 2)])
@pytest.mark.parametrize("sk", [False, True])
def test_features_of_full_sized_encoders_have_their_width_at_every_size(name, width, sk):
    with torch.device("meta"):
        net = create_encoder(name, width=width, sk=sk, padding="same").eval()
    for size in (32, 96, 224):
        images = torch.empty(2, 3, size, size, device="meta")
        assert net(images).shape == (2, 2048 * width)


@pytest.mark.parametrize(("name", "sk", "padding"), EVERY)
def test_every_encoder_computes_and_every_parameter_learns(name, sk, padding):
    """At a quarter of the width; layouts agree, half precision does roughly, gradients are everywhere."""
    torch.manual_seed(0)
    net = create_encoder(name, width=0.25, sk=sk, padding=padding, last_scale=1.0)
    with torch.no_grad():
        for size in (32, 96, 224):
            assert torch.isfinite(net.eval()(torch.randn(1, 3, size, size))).all()
    x = torch.randn(4, 3, 48, 48)
    net.train()(x).square().sum().backward()
    dead = [key for key, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not dead
    net.eval()
    with torch.no_grad():
        expected = net(x)
        assert expected.shape == (4, net.num_features)
        with torch.autocast("cpu", torch.bfloat16):
            half = net(x)
        lasts = net.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    assert torch.allclose(lasts, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
    assert F.cosine_similarity(half.float(), expected, dim=1).min() > 0.99


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck, SelectiveBottleneck])
def test_every_kind_of_block_is_captured_whole_by_the_compiler(block):
    """No break in the graph with either padding, and another size is another graph; of each kind one."""
    torch.manual_seed(0)
    net = ResNet(block, (1, 1, 1, 1), width=0.25, last_scale=1.0).eval()
    pad_same_(net.layer3)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True, dynamic=False)
    with torch.no_grad():
        for size in (40, 45):
            x = torch.randn(2, 3, size, size)
            assert torch.allclose(compiled(x), net(x), rtol=1e-4, atol=1e-5)
