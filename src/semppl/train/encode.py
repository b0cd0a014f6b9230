"""The forward passes of a step: predictions of the online network, projections of the target.

Each view goes through a network by itself, so batch norm sees one view at a time, as in BYOL.

In parts of `size` images, activations live for one part at a time: the forward pass keeps none of them, and
the backward pass computes each part again before it differentiates it. The loss still sees all images
together. With parts as large as the batch that is activation checkpointing and changes no number; with
smaller ones it is gradient caching, and batch norm sees a part at a time.

Shapes: B images, V large views, S small, A = V + S, D dims.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from semppl.nets.heads import Projected, unit


def encode(encoder: nn.Module, images_BCHW: Tensor) -> Tensor:
    """Features; a function so that one compiled version serves every encoder."""
    return encoder(images_BCHW)


def through(head: nn.Module, vectors_BF: Tensor) -> Tensor:
    """The same for projectors and predictors."""
    return head(vectors_BF)


class Nets(NamedTuple):
    """How networks are called: as they are, or through compiled versions of these functions."""

    encode: Callable[[nn.Module, Tensor], Tensor] = encode
    through: Callable[[nn.Module, Tensor], Tensor] = through


PLAIN: Final = Nets()


@final
class Predict(nn.Module):
    """`predictions` as a module: what several processes wrap to add up their gradients."""

    def __init__(self, online: Projected, predictor: nn.Module) -> None:
        super().__init__()
        self.online, self.predictor = online, predictor

    def forward(self, views_A: Sequence[Tensor], nets: Nets, size: int | None) -> Tensor:
        """See `predictions`."""
        return predictions(views_A, self.online, self.predictor, nets, size)


def predictions(
    views_A: Sequence[Tensor], online: Projected, predictor: nn.Module, nets: Nets, size: int | None
) -> Tensor:
    """Unit predictions [A, B, D] with gradients."""

    def predict(images: Tensor) -> Tensor:
        return nets.through(predictor, nets.through(online.projector, nets.encode(online.encoder, images)))

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), statistics_kept([online, predictor])

    def in_parts(view: Tensor) -> Tensor:
        if size is None:
            return predict(view)
        parts = [
            checkpoint(predict, part, use_reentrant=False, preserve_rng_state=False, context_fn=contexts)
            for part in view.split(size)
        ]
        return torch.cat(parts)

    return unit(torch.stack([in_parts(view) for view in views_A]))


@torch.no_grad()
def projections(views: Sequence[Tensor], target: Projected, nets: Nets, size: int | None) -> Tensor:
    """Unit projections [V, B, D] without gradients."""
    projected = []
    for view in views:
        parts = view.split(size) if size is not None else [view]
        outputs = [nets.through(target.projector, nets.encode(target.encoder, part)) for part in parts]
        projected.append(torch.cat(outputs))
    return unit(torch.stack(projected))


@contextmanager
def statistics_kept(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Batch norm normalises by the batch as before and does not count it again."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, _BatchNorm)]
    counts = [layer.num_batches_tracked for layer in layers if layer.num_batches_tracked is not None]
    before = [(layer.momentum, layer) for layer in layers], [count.clone() for count in counts]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for momentum, layer in before[0]:
            layer.momentum = momentum
        for count, old in zip(counts, before[1], strict=True):
            count.copy_(old)
