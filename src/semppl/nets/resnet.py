"""ResNet v1 with a width multiplier and a stem for small images; parameter names as in torchvision.

Written here because neither torchvision nor timm has the widths of the paper together with the small stem;
with width 1 and the ImageNet stem the weights are interchangeable with torchvision's. The stride of a
bottleneck is on its 3×3 convolution.
"""

from typing import Literal, Protocol, final

from torch import Tensor, nn

from semppl.nets.initialise import initialise_

Stem = Literal["imagenet", "small"]


class Block(Protocol):
    """A class of residual blocks."""

    expansion: int
    """Channels of its output for each of its base channels."""

    def __call__(self, inputs: int, channels: int, stride: int) -> nn.Module:
        """A block with `channels` as its base number."""


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Without bias; the size stays, or is divided by the stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """Nothing where shapes stay as they are."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


@final
class BasicBlock(nn.Module):
    """3×3 → 3×3, the block of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, channels, 3, stride), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = conv(channels, channels, 3), nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, channels, stride)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The normalisation before the sum."""
        return self.bn2

    def forward(self, x: Tensor) -> Tensor:
        """One residual block."""
        kept = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + kept)


@final
class Bottleneck(nn.Module):
    """1×1 → 3×3 → 1×1, the block of ResNet-50 and deeper."""

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = channels * self.expansion
        self.conv1, self.bn1 = conv(inputs, channels, 1), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = conv(channels, channels, 3, stride), nn.BatchNorm2d(channels)
        self.conv3, self.bn3 = conv(channels, outputs, 1), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, outputs, stride)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The normalisation before the sum."""
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        """One residual block."""
        kept = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + kept)


@final
class ResNet(nn.Module):
    """Images [B,3,H,W] → features [B, num_features], the mean over the last feature map.

    `stem`: "imagenet" is 7×7 of stride 2 and a max-pool, "small" is 3×3 of stride 1 alone.
    `last_scale`: initial scale of the last normalisation of a block; 0 starts each block as the identity.
    """

    def __init__(
        self,
        block: Block,
        depths: tuple[int, int, int, int],
        *,
        width: float = 1,
        stem: Stem = "imagenet",
        last_scale: float = 0.0,
    ) -> None:
        super().__init__()
        base = round(64 * width)
        if base < 1:
            raise ValueError(f"width {width} leaves no channel")
        small = stem == "small"
        self.conv1 = conv(3, base, 3) if small else conv(3, base, 7, 2)
        self.bn1 = nn.BatchNorm2d(base)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        inputs = base
        for group, depth in enumerate(depths):
            channels = base * 2**group
            blocks = []
            for i in range(depth):
                blocks.append(block(inputs, channels, stride=2 if group > 0 and i == 0 else 1))
                inputs = channels * block.expansion
            self.add_module(f"layer{group + 1}", nn.Sequential(*blocks))
        self.num_features = inputs
        initialise_(self)
        for layer in self.modules():
            if isinstance(norm := getattr(layer, "last_norm", None), nn.BatchNorm2d):
                nn.init.constant_(norm.weight, last_scale)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images_BCHW))))
        for group in ("layer1", "layer2", "layer3", "layer4"):
            x = self.get_submodule(group)(x)
        return x.mean((2, 3))
