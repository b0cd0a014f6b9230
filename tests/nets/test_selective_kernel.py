import pytest
import timm
import torch
from torch import nn
from torch.nn import functional as F

from semppl.nets.encoder import create_encoder
from semppl.nets.selective_kernel import SelectiveBottleneck


def literal(block, x):
    """The unit of the paper, written out: two paths, their sum's mean, a softmax over the paths."""
    unit = block.conv2
    paths = []
    for path, dilation in zip(unit.paths, (1, 2), strict=True):
        y = F.conv2d(
            x, path.conv.weight, stride=path.conv.stride, padding=dilation, dilation=dilation, groups=32
        )
        paths.append(F.relu(path.bn(y)))
    mean = (paths[0] + paths[1]).mean((2, 3))
    small = F.relu(unit.attn.bn((mean @ unit.attn.fc_reduce.weight[:, :, 0, 0].T)[:, :, None, None]))
    logits = small[:, :, 0, 0] @ unit.attn.fc_select.weight[:, :, 0, 0].T
    share = logits.view(len(x), 2, -1).softmax(1)[:, :, :, None, None]
    return share[:, 0] * paths[0] + share[:, 1] * paths[1]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("training", [True, False])
def test_the_unit_written_out(stride, training):
    torch.manual_seed(0)
    block = SelectiveBottleneck(8, 32, stride).train(training)
    x = torch.randn(3, 64, 9, 9)
    assert torch.allclose(block.conv2(x), literal(block, x), atol=1e-5)


def test_the_middle_is_half_of_the_output_in_32_groups():
    block = SelectiveBottleneck(256, 128, 2)
    assert block.conv1.weight.shape == (256, 256, 1, 1)
    assert [path.conv.weight.shape for path in block.conv2.paths] == [(256, 8, 3, 3)] * 2
    assert [path.conv.dilation for path in block.conv2.paths] == [(1, 1), (2, 2)]
    assert [path.conv.stride for path in block.conv2.paths] == [(2, 2), (2, 2)]
    assert block.conv3.weight.shape == (512, 256, 1, 1)
    assert block.conv2.attn.fc_reduce.weight.shape == (32, 256, 1, 1)  # 256/16, and 32 at least
    assert SelectiveBottleneck(8, 512, 1).conv2.attn.fc_reduce.weight.shape[0] == 64


def test_channels_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="50 channels do not divide into 32 groups"):
        SelectiveBottleneck(8, 25, 1)


def test_sk_resnet50_is_timms_skresnext50():
    """An independent construction: the same features from the same weights, under other names."""
    torch.manual_seed(0)
    ours = create_encoder("resnet50", sk=True, last_scale=0.5).eval()
    theirs = timm.create_model("skresnext50_32x4d", num_classes=0).eval()
    shapes = [tuple(x.shape) for x in theirs.state_dict().values()]
    mine = ours.state_dict()
    assert sorted(tuple(x.shape) for x in mine.values()) == sorted(shapes)
    for layer in ours.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.1, 0.1)
            layer.running_var.uniform_(0.5, 1.5)

    def name(key):
        for i in (1, 3):
            key = key.replace(f".conv{i}.", f".conv{i}.conv.").replace(f".bn{i}.", f".conv{i}.bn.")
        return key

    theirs.load_state_dict({name(key): x for key, x in ours.state_dict().items()}, strict=True)
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
