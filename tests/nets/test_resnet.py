import pytest
import torch
import torchvision
from torch import Tensor, nn

from semppl.nets.encoder import create_encoder
from semppl.nets.resnet import BasicBlock, Bottleneck, ResNet
from semppl.nets.selective_kernel import SelectiveBottleneck


def _tiny(block: type[BasicBlock] | type[Bottleneck] = BasicBlock, **options: object) -> ResNet:
    return ResNet(block, (1, 2, 1, 1), **{"width": 1 / 16, **options})


def _randomise_norms_(module: nn.Module) -> None:
    """Scales, offsets and statistics that a network could have after training."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.0)
            nn.init.uniform_(layer.bias, -0.2, 0.2)
            nn.init.uniform_(layer.running_mean, -0.1, 0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)


def _images(num_images: int = 2, size: int = 16) -> Tensor:
    return torch.randn(num_images, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_weights_are_interchangeable_with_torchvisions_and_give_the_same_features(name):
    torch.manual_seed(0)
    ours = create_encoder(name).eval()
    _randomise_norms_(ours)
    theirs = torchvision.models.get_model(name).eval()
    theirs.fc = nn.Identity()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    images = _images(2, 48)
    with torch.no_grad():
        features, expected = ours(images), theirs(images)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert features.std() > 1e-3
    assert torch.allclose(features, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet34", "resnet101", "resnet152"])
def test_deeper_networks_have_torchvisions_parameters(name):
    with torch.device("meta"):
        ours, theirs = create_encoder(name), torchvision.models.get_model(name)
    shapes = {key: value.shape for key, value in theirs.state_dict().items() if not key.startswith("fc.")}
    assert {key: value.shape for key, value in ours.state_dict().items()} == shapes


def test_a_bottleneck_strides_on_its_3x3_and_on_its_shortcut():
    block = Bottleneck(8, 4, stride=2)
    assert [conv.stride for conv in (block.conv1, block.conv2, block.conv3)] == [(1, 1), (2, 2), (1, 1)]
    assert block.conv2.kernel_size == (3, 3)
    assert block.downsample[0].stride == (2, 2)


@pytest.mark.parametrize(
    ("block", "inputs", "channels", "stride", "projected"),
    [
        (BasicBlock, 8, 8, 1, False),
        (BasicBlock, 8, 8, 2, True),
        (BasicBlock, 4, 8, 1, True),
        (Bottleneck, 32, 8, 1, False),
        (Bottleneck, 32, 8, 2, True),
        (Bottleneck, 8, 8, 1, True),
    ],
)
def test_the_shortcut_is_projected_only_where_shapes_change(block, inputs, channels, stride, projected):
    assert (block(inputs, channels, stride).downsample is not None) is projected


@pytest.mark.parametrize(
    ("stem", "sides"),
    [("small", [16, 16, 8, 4, 2]), ("imagenet", [8, 4, 2, 1, 1])],
    ids=["small", "imagenet"],
)
def test_the_small_stem_keeps_the_resolution_and_each_later_group_halves_it(stem, sides):
    net = _tiny(stem=stem)
    seen = []
    for module in (net.conv1, net.layer1, net.layer2, net.layer3, net.layer4):
        module.register_forward_hook(lambda _module, _inputs, output: seen.append(output.shape[2:]))
    net.eval()(_images())
    assert seen == [(side, side) for side in sides]


@pytest.mark.parametrize("stem", ["small", "imagenet"])
def test_features_are_the_mean_over_the_last_feature_map(stem):
    net = _tiny(stem=stem).eval()
    _randomise_norms_(net)
    maps = []
    net.layer4.register_forward_hook(lambda _module, _inputs, output: maps.append(output))
    features = net(_images(3, 32))
    assert features.shape == (3, net.num_features)
    height, width = maps[0].shape[2:]
    total = sum(maps[0][:, :, row, column] for row in range(height) for column in range(width))
    assert torch.allclose(features, total / (height * width), atol=1e-6)


@pytest.mark.parametrize(("width", "base"), [(1 / 16, 4), (0.25, 16), (1, 64), (1.5, 96), (2, 128)])
@pytest.mark.parametrize(("block", "expansion"), [(BasicBlock, 1), (Bottleneck, 4)])
def test_the_width_multiplies_every_channel(width, base, block, expansion):
    with torch.device("meta"):
        net = _tiny(block, width=width)
    assert net.conv1.out_channels == base
    for group, factor in enumerate((1, 2, 4, 8), start=1):
        last = net.get_submodule(f"layer{group}")[-1]
        assert last.conv2.weight.shape == (base * factor, base * factor, 3, 3)
    assert net.num_features == base * 8 * expansion


def test_a_width_that_leaves_no_channel_is_refused():
    with pytest.raises(ValueError, match=r"width 0\.001 leaves no channel"):
        _tiny(width=0.001)


def _shortcut_of(block: nn.Module, x: Tensor) -> Tensor:
    return x if block.downsample is None else block.downsample(x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("block", [BasicBlock, Bottleneck, SelectiveBottleneck])
def test_a_last_scale_of_zero_starts_every_block_as_its_shortcut(block, training):
    torch.manual_seed(0)
    net = _tiny(block, stem="small", last_scale=0.0).train(training)
    x = torch.relu(net.bn1(net.conv1(_images(4, 8))))
    num_blocks = 0
    for group in (net.layer1, net.layer2, net.layer3, net.layer4):
        for residual in group:
            expected = torch.relu(_shortcut_of(residual, x))
            output = residual(x)
            assert torch.equal(output, expected)
            x = output
            num_blocks += 1
    assert num_blocks == 5
    assert x.any()


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck, SelectiveBottleneck])
@pytest.mark.parametrize("last_scale", [0.0, 0.5, 1.0])
def test_the_last_scale_is_that_of_the_last_norm_of_each_block_and_of_no_other(block, last_scale):
    net = _tiny(block, last_scale=last_scale)
    last = "bn2" if block is BasicBlock else "bn3"
    for name, layer in net.named_modules():
        if isinstance(layer, nn.BatchNorm2d):
            expected = last_scale if name.startswith("layer") and name.endswith(last) else 1.0
            assert (layer.weight == expected).all(), name
            assert (layer.bias == 0).all(), name


def test_a_last_scale_of_one_lets_every_block_add_something():
    torch.manual_seed(0)
    net = _tiny(stem="small", last_scale=1.0)
    x = torch.relu(net.bn1(net.conv1(_images(4, 8))))
    assert not torch.allclose(net.layer1(x), torch.relu(_shortcut_of(net.layer1[0], x)))


def test_a_block_leaves_its_input_as_it_was():
    block = BasicBlock(4, 4, stride=1)
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    block(x)
    assert torch.equal(x, before)


def test_every_parameter_gets_a_gradient_even_when_blocks_start_as_shortcuts():
    torch.manual_seed(0)
    net = _tiny(Bottleneck, stem="small")
    net(_images(4, 16)).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    assert net.layer2[0].bn3.weight.grad.any()
    assert not net.layer2[0].conv1.weight.grad.any()
