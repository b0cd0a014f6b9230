"""Padding as TensorFlow's "SAME": computed from the size of the input, an odd pixel at the bottom and right.

Weights that were trained with it give shifted features under the symmetric padding of PyTorch. Where a
convolution has stride 1 the two are equal, so only the others are replaced, by those of timm.
"""

from typing import Final, Literal

from timm.layers.conv2d_same import Conv2dSame
from timm.layers.pool2d_same import MaxPool2dSame
from torch import nn

Padding = Literal["symmetric", "same"]
PADDINGS: Final = ("symmetric", "same")


def pad_same_(module: nn.Module) -> None:
    """Replace each strided convolution and max-pool below `module`; weights stay the same objects."""
    for name, child in module.named_children():
        if isinstance(child, nn.MaxPool2d):
            setattr(module, name, MaxPool2dSame(child.kernel_size, child.stride))
        elif isinstance(child, nn.Conv2d):
            if max(child.stride) > 1 and max(child.kernel_size) > 1:
                setattr(module, name, _same(child))
        else:
            pad_same_(child)


def _same(layer: nn.Conv2d) -> Conv2dSame:
    same = nn.utils.skip_init(
        Conv2dSame,
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,
        layer.stride,
        dilation=layer.dilation,
        groups=layer.groups,
        bias=layer.bias is not None,
    )
    same.weight, same.bias = layer.weight, layer.bias
    return same
