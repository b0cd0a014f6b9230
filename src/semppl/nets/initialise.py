"""Initial weights as in Haiku, which the paper used."""

import math

from torch import nn


def initialise_(module: nn.Module) -> None:
    """Weights of convolutions and linear layers: normal with σ = 1/√fan_in, cut at ±2σ; biases 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            sigma = 1.0 / math.sqrt(fan_in)
            nn.init.trunc_normal_(layer.weight, std=sigma, a=-2 * sigma, b=2 * sigma)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
