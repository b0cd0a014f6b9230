"""Semantic positives: uniform draws from the queue among entries with the same label (paper, section 2).

Shapes: A anchor views, V large views, P positives, B images, C queue capacity, D dims, Y classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from semppl.method.queue import LabelledQueue


class Positives(NamedTuple):
    """Drawn embeddings; zeros where the queue has no entry with the image's label (`found_B` is False)."""

    embeddings_AVPBD: Tensor
    found_B: Tensor
    predictions_AVPBD: Tensor | None = None
    """Online predictions of the drawn images, where the queue keeps them."""
    trust_B: Tensor | None = None
    """How much an image's positives count, where they do not all count the same."""


def weight_of(positives: Positives) -> Tensor:
    """Of each image's semantic terms [B]; 0 where nothing was found."""
    return positives.found_B if positives.trust_B is None else positives.found_B * positives.trust_B


@torch.no_grad()
def draw_slots(
    labels_B: Tensor,
    queue: LabelledQueue,
    anchors: int,
    count: int,
    generator: torch.Generator | None = None,
    *,
    mirrored: bool = False,
) -> tuple[Tensor, Tensor]:
    """Slots [A, V, P, B] of uniform draws with replacement, and for which images there are any [B].

    Slots are sorted by label once; a draw is a position inside the run of its label, so memory grows with
    the draws and with C, never with B×C. With `mirrored`, (i, j) and (j, i) draw the same slots for large i
    and j. Where there are none, a slot means nothing.
    """
    labels_B = labels_B.to(queue.labels_C)
    # short integers are sorted in fewer passes
    kind = torch.int16 if queue.classes < 2**15 else torch.int32
    sorted_C, order_C = queue.labels_C.to(kind).sort(stable=True)
    classes_Y1 = torch.arange(queue.classes + 1, device=order_C.device, dtype=kind)
    edges_Y1 = torch.searchsorted(sorted_C, classes_Y1)
    known_B = (labels_B >= 0) & (labels_B < queue.classes)
    class_B = labels_B.where(known_B, 0)
    start_B = edges_Y1[class_B]
    size_B = (edges_Y1[class_B + 1] - start_B) * known_B
    shape = (anchors, queue.views, count, len(labels_B))
    # 62 random bits modulo the size of a class: uniform to 1 in 10^13, in exact integer arithmetic
    device = generator.device if generator is not None else order_C.device
    bits_AVPB = torch.randint(1 << 62, shape, generator=generator, device=device).to(order_C.device)
    if mirrored:
        large = bits_AVPB[: queue.views]
        upper_VV = torch.ones(queue.views, queue.views, dtype=torch.bool, device=large.device).triu()
        bits_AVPB[: queue.views] = large.where(upper_VV[:, :, None, None], large.transpose(0, 1))
    place_AVPB = (start_B + bits_AVPB % size_B.clamp(min=1)).clamp(max=queue.capacity - 1)
    return order_C[place_AVPB], size_B > 0


@torch.no_grad()
def sample_positives(
    labels_B: Tensor,
    queue: LabelledQueue,
    anchors: int,
    count: int,
    generator: torch.Generator | None = None,
    *,
    mirrored: bool = False,
) -> Positives:
    """Draw `count` entries of queue j for each (anchor view i, target view j, image): see `draw_slots`."""
    slots_AVPB, found_B = draw_slots(labels_B, queue, anchors, count, generator, mirrored=mirrored)
    views_V11 = torch.arange(queue.views, device=slots_AVPB.device)[:, None, None]
    hidden_B1 = ~found_B[:, None]
    stored_VCD = queue.predictions_VCD
    return Positives(
        queue.embeddings_VCD[views_V11, slots_AVPB].masked_fill_(hidden_B1, 0),
        found_B,
        None if stored_VCD is None else stored_VCD[views_V11, slots_AVPB].masked_fill_(hidden_B1, 0),
    )
