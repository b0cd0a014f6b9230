"""Initial weights as in Haiku, which the paper used."""

import math

import torch
from torch import nn


def initialise_(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Weights of convolutions and linear layers: normal with σ = 1/√fan_in, cut at ±2σ; biases 0."""
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
