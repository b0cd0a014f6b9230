"""Gradient descent of a classifier on labelled views: what fine-tuning and linear evaluation share.

Shapes: L labelled images, B images of a batch, Y classes, s side of a view.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, AdamW, Optimizer

from semppl.core.recording import Recorded, Recorder
from semppl.core.rng import generator
from semppl.data.order import stream_indices
from semppl.evaluate.bookmark import Bookmark, steps_left
from semppl.optim.groups import decay_groups

T = TypeVar("T")

Examples: TypeAlias = Callable[[int], tuple[Tensor, Tensor]]
"""Step → float views [B,3,s,s] and labels [B], on the device; the same step always gives the same."""

Crops: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""Positions [B] of labelled images and a generator, both on the CPU → float views [B,3,s,s] on the device."""

Precision: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Around forward passes: autocast, or nothing."""


def exact() -> AbstractContextManager[object]:
    """The precision of the weights."""
    return nullcontext()


class Means(NamedTuple):
    """What a training finds where it runs."""

    precision: Precision = exact
    recorder: Recorder | None = None
    """Where it can replay a step: then the optimiser must read rates that are tensors."""
    bookmark: Bookmark | None = None
    """Where it goes on; without one it begins at its beginning."""


PLAIN: Final = Means()


@final
class Strides(Generic[T]):
    """Tensors → what `work` makes of them, at rates that change from step to step; recorded where there is a
    recorder.
    """

    def __init__(
        self, work: Callable[[Sequence[Tensor]], T], optimizer: Optimizer, recorder: Recorder | None
    ) -> None:
        self._work, self._optimizer = work, optimizer
        self._rates: list[Tensor] = []
        if recorder is not None:
            self._rates = [
                torch.zeros((), device=group["params"][0].device) for group in optimizer.param_groups
            ]
            forget = partial(optimizer.zero_grad, set_to_none=True)
            self._work = Recorded(work, recorder, ready=forget)

    def __call__(self, rates: Sequence[float], inputs: Sequence[Tensor]) -> T:
        """One step, with a rate for each group of the optimiser."""
        lrs: Sequence[float | Tensor] = rates
        if self._rates:
            lrs = [memory.fill_(rate) for memory, rate in zip(self._rates, rates, strict=True)]
        for group, lr in zip(self._optimizer.param_groups, lrs, strict=True):
            group["lr"] = lr
        return self._work(inputs)


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
    """Nesterov momentum 0.9; weights decay."""
    # fused ones read a rate that is a tensor without asking for it
    fused = next(model.parameters()).is_cuda or None
    groups = decay_groups(model, weight_decay)
    return SGD(groups, lr=lr, momentum=0.9, nesterov=True, fused=fused)


def decaying_adamw(model: nn.Module, *, lr: float, weight_decay: float) -> AdamW:
    """AdamW as torch has it; weights decay."""
    on_gpu = next(model.parameters()).is_cuda
    return AdamW(decay_groups(model, weight_decay), lr=lr, fused=True, capturable=on_gpu)


def descend_(
    model: nn.Module,
    examples: Examples,
    optimizer: Optimizer,
    rate: Callable[[int], Sequence[float]],
    steps: int,
    *,
    means: Means = PLAIN,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Minimise the cross-entropy. `rate` gives the learning rate of each group at a step, `advance` hears how
    many steps are done.
    """

    def work(inputs: Sequence[Tensor]) -> None:
        views_B3ss, labels_B = inputs
        with means.precision():
            logits_BY = model(views_B3ss)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits_BY.float(), labels_B).backward()
        optimizer.step()

    step_ = Strides(work, optimizer, means.recorder)
    for step in steps_left(steps, {"model": model, "optimizer": optimizer}, means.bookmark):
        step_(rate(step), examples(step))
        if advance is not None:
            advance(step + 1)
