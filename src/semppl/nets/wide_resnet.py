"""Wide ResNets for images of 32 px (Zagoruyko and Komodakis, 2016), as the semi-supervised peers have them.

Here for rows that compare like with like: FixMatch and those after it report WRN-28-2 on CIFAR-10. Blocks
normalise first; rectifiers leak by 0.1; the first block of all shares its normalised input with the shortcut.
"""

from typing import final

from torch import Tensor, nn

from semppl.nets.initialise import initialise_
from semppl.nets.resnet import conv

_LEAK = 0.1


@final
class WideBlock(nn.Module):
    """Norm → 3×3 → norm → 3×3, added to a shortcut that is projected where shapes change."""

    def __init__(self, inputs: int, channels: int, stride: int, *, shared: bool) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv(inputs, channels, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(channels), conv(channels, channels, 3)
        self.relu = nn.LeakyReLU(_LEAK, inplace=True)
        self.shared = shared
        changed = stride != 1 or inputs != channels
        self.downsample = conv(inputs, channels, 1, stride) if changed else None

    def forward(self, x: Tensor) -> Tensor:
        """One residual block."""
        active = self.relu(self.bn1(x))
        kept = active if self.shared else x
        kept = kept if self.downsample is None else self.downsample(kept)
        return self.conv2(self.relu(self.bn2(self.conv1(active)))) + kept


@final
class WideResNet(nn.Module):
    """Images [B,3,H,W] → features [B, 64·width]; the depth is 4 + 6 times the blocks of a group."""

    def __init__(self, depth: int, width: float) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise ValueError(f"a wide ResNet has a depth of 4 + 6n, not {depth}")
        self.conv1 = conv(3, 16, 3)
        inputs = 16
        for group in range(3):
            channels, blocks = round(16 * 2**group * width), []
            for i in range((depth - 4) // 6):
                stride, first = (2 if group and not i else 1), not group and not i
                blocks.append(WideBlock(inputs, channels, stride, shared=first))
                inputs = channels
            self.add_module(f"layer{group + 1}", nn.Sequential(*blocks))
        self.bn, self.relu = nn.BatchNorm2d(inputs), nn.LeakyReLU(_LEAK, inplace=True)
        self.num_features = inputs
        initialise_(self)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        x = self.conv1(images_BCHW)
        for group in ("layer1", "layer2", "layer3"):
            x = self.get_submodule(group)(x)
        return self.relu(self.bn(x)).mean((2, 3))
