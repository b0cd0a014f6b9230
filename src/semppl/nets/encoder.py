"""Encoders by name."""

from collections.abc import Mapping
from typing import Final

from semppl.core.errors import choose
from semppl.nets.pretrained import PREFIX, TimmEncoder, create_timm
from semppl.nets.resnet import BasicBlock, Bottleneck, ResNet, Stem

_Plan = tuple[type[BasicBlock] | type[Bottleneck], tuple[int, int, int, int]]

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
    last_scale: float = 0.0,
    pretrained: bool = False,
) -> ResNet | TimmEncoder:
    """An encoder with fresh weights; `num_features` says how wide its output is.

    `timm:NAME` is any model of timm, with its own weights if `pretrained`; width, stem and scale are ours.
    `sk` (selective kernels) is a name kept for the encoders of the paper that are not here yet.
    """
    if name.startswith(PREFIX):
        if width != 1 or sk:
            raise ValueError(f"{name}: width and selective kernels are for our own encoders")
        return create_timm(name, pretrained=pretrained)
    block, depths = choose(ENCODERS, name, "encoder")
    if sk:
        raise ValueError(f"{name} with selective kernels is not available yet: use sk=False")
    if stem not in ("imagenet", "small"):
        raise ValueError(f"unknown stem {stem!r}: choose from imagenet, small")
    return ResNet(block, depths, width=width, stem=stem, last_scale=last_scale)
