"""Encoders by name."""

from collections.abc import Mapping
from typing import Final

from semppl.core.errors import UserError
from semppl.nets.padding import PADDINGS, Padding, pad_same_
from semppl.nets.pretrained import PREFIX, TimmEncoder, create_timm
from semppl.nets.resnet import BasicBlock, Block, Bottleneck, ResNet, Stem
from semppl.nets.selective_kernel import SelectiveBottleneck
from semppl.nets.wide_resnet import WideResNet

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
# depth and width of those for images of 32 px, which have a stem of their own
WIDE: Final[Mapping[str, tuple[int, float]]] = {"wrn28-2": (28, 2), "wrn28-8": (28, 8)}


def create_encoder(
    name: str,
    *,
    width: float = 1,
    sk: bool = False,
    stem: Stem = "imagenet",
    padding: Padding = "symmetric",
    last_scale: float = 0.0,
    pretrained: bool = False,
) -> ResNet | WideResNet | TimmEncoder:
    """An encoder with fresh weights; `num_features` says how wide its output is.

    `timm:NAME` is any model of timm, with its own weights if `pretrained`; width, selective kernels (`sk`),
    stem, padding and scale are ours. `padding="same"` is TensorFlow's, for weights that were trained with it.
    """
    for value, what, known in ((stem, "stem", ("imagenet", "small")), (padding, "padding", PADDINGS)):
        if value not in known:
            raise ValueError(f"unknown {what} {value!r}: choose from {', '.join(known)}")
    if name not in ENCODERS:
        return _other(name, width, plain=not sk and padding == "symmetric", pretrained=pretrained)
    block, depths = ENCODERS[name]
    if sk and block is not Bottleneck:
        raise ValueError(f"{name}: selective kernels are for resnet50 and deeper")
    net = ResNet(SelectiveBottleneck if sk else block, depths, width=width, stem=stem, last_scale=last_scale)
    if padding == "same":
        pad_same_(net)
    return net


def _other(name: str, width: float, *, plain: bool, pretrained: bool) -> WideResNet | TimmEncoder:
    """Those that have their own stem and padding."""
    if name not in WIDE and not name.startswith(PREFIX):
        known = ", ".join((*ENCODERS, *WIDE))
        raise UserError(f"unknown encoder {name!r}: choose from {known} or timm:NAME")
    if not plain:
        raise ValueError(f"{name}: selective kernels and padding are for our own ResNets")
    if width != 1 and name not in WIDE:
        raise ValueError(f"{name} has one width, which is 1, not {width:g} (--net.width 1)")
    if name not in WIDE:
        return create_timm(name, pretrained=pretrained)
    depth, times = WIDE[name]
    return WideResNet(depth, times * width)
