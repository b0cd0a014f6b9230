import pytest
import torch
from torch import nn
from torch.nn import functional as F

from semppl.nets.encoder import create_encoder
from semppl.nets.wide_resnet import WideBlock, WideResNet


def test_wrn_28_2_has_the_published_number_of_parameters():
    net = create_encoder("wrn28-2")
    classified = nn.Sequential(net, nn.Linear(net.num_features, 10))
    assert net.num_features == 128
    assert sum(x.numel() for x in classified.parameters()) == 1_467_610


def test_the_depth_counts_the_layers_on_the_longest_path():
    for depth in (10, 16, 28):
        net = WideResNet(depth, 1)
        convolutions = [
            key for key, x in net.named_modules() if isinstance(x, nn.Conv2d) and "downsample" not in key
        ]
        assert len(convolutions) + 3 == depth  # by custom the three projections count, and no classifier
    with pytest.raises(ValueError, match="a depth of 4 \\+ 6n, not 27"):
        WideResNet(27, 2)


@pytest.mark.parametrize("shared", [True, False])
def test_a_block_written_out(shared):
    torch.manual_seed(0)
    block = WideBlock(4, 6, 2, shared=shared).eval()
    x = torch.randn(2, 4, 7, 7)
    before = x.clone()
    active = F.leaky_relu(block.bn1(x), 0.1)
    inner = F.conv2d(active, block.conv1.weight, stride=2, padding=1)
    inner = F.conv2d(F.leaky_relu(block.bn2(inner), 0.1), block.conv2.weight, padding=1)
    kept = F.conv2d(active if shared else x, block.downsample.weight, stride=2)
    assert torch.allclose(block(x), inner + kept, atol=1e-6)
    assert torch.equal(x, before)
    assert WideBlock(4, 4, 1, shared=False).downsample is None


def test_only_the_first_block_shares_and_groups_halve():
    net = WideResNet(16, 0.5).eval()
    shared = [name for name, x in net.named_modules() if isinstance(x, WideBlock) and x.shared]
    assert shared == ["layer1.0"]
    seen = []
    for group in (net.layer1, net.layer2, net.layer3):
        group.register_forward_hook(lambda _module, _inputs, output: seen.append(tuple(output.shape[1:])))
    assert net(torch.randn(1, 3, 32, 32)).shape == (1, 32)
    assert seen == [(8, 32, 32), (16, 16, 16), (32, 8, 8)]


def test_every_parameter_learns():
    torch.manual_seed(0)
    net = create_encoder("wrn28-2", width=0.25)
    net(torch.randn(4, 3, 16, 16)).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in net.parameters())


def test_what_a_wide_resnet_has_not_is_refused():
    for option in ({"sk": True}, {"padding": "same"}):
        with pytest.raises(
            ValueError, match="wrn28-2: selective kernels and padding are for our own ResNets"
        ):
            create_encoder("wrn28-2", **option)
