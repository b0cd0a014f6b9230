"""Gradient descent of a classifier on labelled views: what fine-tuning and linear evaluation share.

Shapes: L labelled images, B images of a batch, Y classes, s side of a view.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from semppl.core.rng import generator
from semppl.data.order import stream_indices

Examples: TypeAlias = Callable[[int], tuple[Tensor, Tensor]]
"""Step → float views [B,3,s,s] and labels [B], on the device; the same step always gives the same."""

Crops: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""Positions [B] of labelled images and a generator, both on the CPU → float views [B,3,s,s] on the device."""

Precision: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Around forward passes: autocast, or nothing."""


def exact() -> AbstractContextManager[object]:
    """The precision of the weights."""
    return nullcontext()


def shuffled(
    crops: Crops, labels_L: Tensor, *, classes: int, batch_size: int, seed: int, name: str
) -> Examples:
    """Labelled images in an order drawn anew for each epoch; labels go to where the views are."""
    if not len(labels_L) or not 0 <= int(labels_L.min()) <= int(labels_L.max()) < classes:
        raise ValueError(f"training needs labels from 0 to {classes - 1}, but got {labels_L.unique()}")

    def examples(step: int) -> tuple[Tensor, Tensor]:
        index_B = stream_indices(step, batch_size, len(labels_L), seed, name)
        views_B3ss = crops(index_B, generator(seed, name, step))
        return views_B3ss, labels_L[index_B].to(views_B3ss.device)

    return examples


def decaying_sgd(model: nn.Module, *, lr: float, weight_decay: float) -> SGD:
    """Nesterov momentum 0.9, two groups: weights decay, biases and batch norm do not."""
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0},
    ]
    # fused ones read a rate that is a tensor without asking for it
    return SGD(groups, lr=lr, momentum=0.9, nesterov=True, fused=params[0].is_cuda or None)


def descend_(
    model: nn.Module,
    examples: Examples,
    optimizer: Optimizer,
    rate: Callable[[int], Sequence[float]],
    steps: int,
    *,
    precision: Precision = exact,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Minimise the cross-entropy. `rate` gives the learning rate of each group at a step, `advance` hears how
    many steps are done.
    """
    for step in range(steps):
        views_B3ss, labels_B = examples(step)
        for group, lr in zip(optimizer.param_groups, rate(step), strict=True):
            group["lr"] = lr
        with precision():
            logits_BY = model(views_B3ss)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits_BY.float(), labels_B).backward()
        optimizer.step()
        if advance is not None:
            advance(step + 1)
