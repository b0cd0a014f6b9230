"""Initial weights as in Haiku, which the paper used; or none of them, where others are there already."""

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)
_DRAWN: Final = ContextVar("drawn", default=True)


def undrawn(create: Callable[[], M]) -> M:
    """What `create` makes, for weights that will all be replaced: drawing ours takes longer than all else, a
    second for a ResNet-50. What torch and timm do by themselves stays, so whatever is no weight is as ever.
    """
    before = _DRAWN.set(False)
    try:
        return create()
    finally:
        _DRAWN.reset(before)


def initialise_(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Weights of convolutions and linear layers: normal with σ = 1/√fan_in, cut at ±2σ; biases 0."""
    if not _DRAWN.get():
        return
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            sigma = 1.0 / math.sqrt(fan_in)
            nn.init.trunc_normal_(layer.weight, std=sigma, a=-2 * sigma, b=2 * sigma, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def create_linear(num_inputs: int, num_outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with such weights from a generator, so that no other draw is disturbed."""
    layer = nn.utils.skip_init(nn.Linear, num_inputs, num_outputs)
    initialise_(layer, generator)
    return layer
