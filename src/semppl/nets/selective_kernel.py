"""The residual block with selective kernels (Li et al., 2019), as in the paper's SK-ResNets.

Two grouped 3×3 convolutions, one dilated to see 5×5; a softmax over the two, per channel and image, weighs
their sum. The middle is half as wide as the output and has 32 groups: the one construction that has the
27.5 million parameters of the paper. The unit itself is timm's.
"""

from typing import Final, final

from timm.layers.selective_kernel import SelectiveKernel
from torch import Tensor, nn

from semppl.nets.resnet import conv, shortcut

GROUPS: Final = 32
_REDUCTION, _LEAST = 16, 32


@final
class SelectiveBottleneck(nn.Module):
    """1×1 → selective kernels → 1×1."""

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        middle, outputs = 2 * channels, channels * self.expansion
        if middle % min(GROUPS, middle):
            raise ValueError(f"selective kernels of {middle} channels do not divide into {GROUPS} groups")
        self.conv1, self.bn1 = conv(inputs, middle, 1), nn.BatchNorm2d(middle)
        self.conv2 = SelectiveKernel(
            middle,
            stride=stride,
            groups=GROUPS,
            rd_channels=max(middle // _REDUCTION, _LEAST),
            split_input=False,
        )
        self.conv3, self.bn3 = conv(middle, outputs, 1), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, outputs, stride)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The normalisation before the sum."""
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        """One residual block."""
        kept = x if self.downsample is None else self.downsample(x)
        x = self.conv2(self.relu(self.bn1(self.conv1(x))))
        return self.relu(self.bn3(self.conv3(x)) + kept)
