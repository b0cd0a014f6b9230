import math

import pytest
import torch
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.pool2d_same import MaxPool2dSame
from torch import nn
from torch.nn import functional as F

from semppl.nets.encoder import create_encoder
from semppl.nets.padding import pad_same_


def same(size, kernel, stride, dilation=1):
    """(low, high) by the definition: the output has ⌈n/s⌉ pixels, an odd one goes behind."""
    outputs = math.ceil(size / stride)
    total = max((outputs - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padded(x, kernel, stride, dilation=1, value=0.0):
    top, bottom = same(x.shape[2], kernel, stride, dilation)
    left, right = same(x.shape[3], kernel, stride, dilation)
    return F.pad(x, (left, right, top, bottom), value=value)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "expected"),
    [
        (224, 7, 2, 1, (2, 3)),
        (96, 7, 2, 1, (2, 3)),
        (112, 3, 2, 1, (0, 1)),
        (56, 3, 1, 1, (1, 1)),
        (28, 3, 2, 1, (0, 1)),
        (28, 3, 1, 2, (2, 2)),
        (28, 3, 2, 2, (1, 2)),
        (97, 3, 2, 1, (1, 1)),
        (97, 7, 2, 1, (3, 3)),
        (1, 7, 2, 1, (3, 3)),
    ],
)
def test_the_table_of_paddings_and_a_convolution_that_follows_it(size, kernel, stride, dilation, expected):
    assert same(size, kernel, stride, dilation) == expected
    torch.manual_seed(0)
    symmetric = (kernel - 1) * dilation // 2
    plain = nn.Conv2d(2, 3, kernel, stride, padding=symmetric, dilation=dilation, bias=True)
    net = nn.Sequential(plain)
    pad_same_(net)
    x = torch.randn(1, 2, size, min(size + 3, 40))
    wanted = F.conv2d(
        padded(x, kernel, stride, dilation), plain.weight, plain.bias, stride, dilation=dilation
    )
    assert torch.allclose(net(x), wanted, atol=1e-6)
    assert net[0].weight is plain.weight
    assert net[0].bias is plain.bias


@pytest.mark.parametrize("size", [11, 12])
def test_a_pool_pads_with_nothing_that_could_win(size):
    net = nn.Sequential(nn.MaxPool2d(3, 2, 1))
    pad_same_(net)
    x = -torch.rand(2, 3, size, size + 1) - 1
    assert torch.equal(net(x), F.max_pool2d(padded(x, 3, 2, value=-math.inf), 3, 2))


@pytest.mark.parametrize("sk", [False, True])
def test_only_what_strides_is_replaced(sk):
    with torch.device("meta"):
        net = create_encoder("resnet50", sk=sk, padding="same")
        plain = create_encoder("resnet50", sk=sk)
    for name, layer in net.named_modules():
        if isinstance(layer, nn.Conv2d):
            strided = layer.stride == (2, 2) and layer.kernel_size != (1, 1)
            assert isinstance(layer, Conv2dSame) is strided, name
            assert layer.groups == plain.get_submodule(name).groups
            assert layer.dilation == plain.get_submodule(name).dilation
    assert isinstance(net.maxpool, MaxPool2dSame)
    assert net.state_dict().keys() == plain.state_dict().keys()


def test_odd_sizes_see_the_same_as_symmetric_padding_and_even_ones_do_not():
    torch.manual_seed(0)
    net = create_encoder("resnet10", width=0.0625, padding="same", last_scale=1.0).eval()
    plain = create_encoder("resnet10", width=0.0625).eval()
    plain.load_state_dict(net.state_dict())
    odd, even = torch.randn(1, 3, 97, 97), torch.randn(1, 3, 96, 96)
    with torch.no_grad():
        assert torch.allclose(net(odd), plain(odd), atol=1e-6)  # 97 → 49 → 25 → 13 → 7 → 4
        assert not torch.allclose(net(even), plain(even), atol=1e-3)
