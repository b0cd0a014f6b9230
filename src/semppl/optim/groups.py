"""Which parameters decay: weights do, biases and batch norm do not."""

from typing import Any

from torch import nn


def decay_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimiser, weights first."""
    params = list(module.parameters())
    return [
        {"params": [p for p in params if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0},
    ]
