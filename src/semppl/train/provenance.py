"""Which image each slot of the queue holds.

The queue stores no indices, and need not: a step's images are a function of the seed and the step, and what
a step pushes are its labelled images in their order. So the newest entries are found by walking back.

Shapes: M images of the set, B of a batch, T batches, C queue capacity, R pushed rows.
"""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from semppl.core.labels import UNLABELLED
from semppl.data.order import NATURAL, Mixture, Order
from semppl.method.queue import LabelledQueue
from semppl.train.recovery import IN_A_ROW

NO_IMAGE: Final = -1


def slot_images(
    queue: LabelledQueue,
    step: int,
    labels_M: Tensor,
    *,
    batch_size: int,
    seed: int,
    mixture: Mixture = NATURAL,
) -> Tensor:
    """The image in each slot [C] after `step` steps; NO_IMAGE where a slot holds none, or nobody knows.

    A step that was left out because it was not finite has moved the clock and pushed nothing, and no file
    says which one it was. Labels tell: where those of a step are not the slots', the step is passed over. So
    an image is never named whose label differs from its slot's. A run ends at the third such step in a row;
    if there are as many here, this is not the queue's history, and the slots that are left hold NO_IMAGE.
    """
    labels_C, images_C = queue.labels_C.cpu(), torch.full((queue.capacity,), NO_IMAGE)
    newest = int(queue.state_dict()["cursor"]) - 1
    found, strange = 0, 0
    for images_R in _pushes(step, labels_M, batch_size, seed, mixture):
        kept_R = images_R.flip(0)[: queue.capacity - found]
        slots_R = (newest - found - torch.arange(len(kept_R))) % queue.capacity
        if torch.equal(labels_M[kept_R], labels_C[slots_R]):
            images_C[slots_R] = kept_R
            found, strange = found + len(kept_R), 0
        else:
            strange += 1
        if found == queue.capacity or strange == IN_A_ROW:
            break
    return images_C


def _pushes(step: int, labels_M: Tensor, batch_size: int, seed: int, mixture: Mixture) -> Iterator[Tensor]:
    """The labelled images of each step that has any, the newest step first.

    Batches of one stream follow each other, so many of them are one long batch: with few labels most steps
    push nothing, and are not looked at one by one.
    """
    labelled_M = labels_M != UNLABELLED
    together = max(len(labels_M) // batch_size, 1) if mixture == NATURAL else 1
    order = Order(labels_M, batch_size=together * batch_size, seed=seed, mixture=mixture)
    for number in reversed(range(-(-step // together))):
        index_TB = order(number).view(together, batch_size)[: step - number * together]
        labelled_TB = labelled_M[index_TB]
        for row in labelled_TB.any(1).nonzero().flip(0).flatten().tolist():
            yield index_TB[row, labelled_TB[row]]
