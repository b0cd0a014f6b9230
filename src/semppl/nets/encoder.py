"""Encoders by name."""

from collections.abc import Mapping
from typing import Final

from semppl.core.errors import choose
from semppl.nets.padding import PADDINGS, Padding, pad_same_
from semppl.nets.pretrained import PREFIX, TimmEncoder, create_timm
from semppl.nets.resnet import BasicBlock, Block, Bottleneck, ResNet, Stem
from semppl.nets.selective_kernel import SelectiveBottleneck

_Plan = tuple[Block, tuple[int, int, int, int]]

ENCODERS: Final[Mapping[str, _Plan]] = {
    "resnet10": (BasicBlock, (1, 1, 1, 1)),
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
    "resnet200": (Bottleneck, (3, 24, 36, 3)),
}


def create_encoder(
    name: str,
    *,
    width: float = 1,
    sk: bool = False,
    stem: Stem = "imagenet",
    padding: Padding = "symmetric",
    last_scale: float = 0.0,
    pretrained: bool = False,
) -> ResNet | TimmEncoder:
    """An encoder with fresh weights; `num_features` says how wide its output is.

    `timm:NAME` is any model of timm, with its own weights if `pretrained`; width, selective kernels (`sk`),
    stem, padding and scale are ours. `padding="same"` is TensorFlow's, for weights that were trained with it.
    """
    for value, what, known in ((stem, "stem", ("imagenet", "small")), (padding, "padding", PADDINGS)):
        if value not in known:
            raise ValueError(f"unknown {what} {value!r}: choose from {', '.join(known)}")
    if name.startswith(PREFIX):
        if width != 1 or sk or padding != "symmetric":
            raise ValueError(f"{name}: width, selective kernels and padding are for our own encoders")
        return create_timm(name, pretrained=pretrained)
    block, depths = choose(ENCODERS, name, "encoder")
    if sk and block is not Bottleneck:
        raise ValueError(f"{name}: selective kernels are for resnet50 and deeper")
    net = ResNet(SelectiveBottleneck if sk else block, depths, width=width, stem=stem, last_scale=last_scale)
    if padding == "same":
        pad_same_(net)
    return net
