"""Negatives N(x): other images of the batch, drawn uniformly. Shapes: B images, N negatives."""

import torch
from torch import Tensor


def draw_negatives(batch_size: int, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Indices [B, N] of `count` different other images for each image; never itself.

    One draw serves all views of an image: the invariance penalty compares distributions over the same images.
    A batch with fewer others gives all of them. They are the largest of random numbers, one for each pair of
    images; few in a large batch are drawn by Floyd's method, which is just as exact and needs no B×B matrix.
    """
    if batch_size < 1 or count < 0:
        raise ValueError(f"cannot draw {count} negatives from a batch of {batch_size}")
    others = batch_size - 1
    count = min(count, others)
    device = generator.device if generator is not None else None
    self_B1 = torch.arange(batch_size, device=device)[:, None]
    if count > 64 or batch_size <= 1024:
        order_BN = torch.rand(batch_size, others, generator=generator, device=device).topk(count).indices
        return order_BN + (order_BN >= self_B1)
    drawn_BN = torch.empty(batch_size, count, dtype=torch.long, device=device)
    for n in range(count):
        last = others - count + n
        pick_B = torch.randint(last + 1, (batch_size,), generator=generator, device=device)
        seen_B = (drawn_BN[:, :n] == pick_B[:, None]).any(1)
        drawn_BN[:, n] = pick_B.where(~seen_B, last)
    return drawn_BN + (drawn_BN >= self_B1)
