"""A picture of test images and the labelled images that an encoder puts nearest to them."""

import torch
from PIL import Image
from torch import nn

from semppl.core.drawing import FRAME, NEUTRAL, RIGHT, WRONG, paste_framed
from semppl.evaluate.scores import NEIGHBOURS, Judge
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit

_GAP = 24


def neighbour_sheet(judge: Judge, encoder: nn.Module, *, per_class: int = 2, height: int = 48) -> Image.Image:
    """One row for each class: its first test images, each followed by its nearest labelled images.

    A green frame is a neighbour of the same class, a red one is not.
    """
    rows = [
        (judge.test_labels_T == label).nonzero().squeeze(1)[:per_class].tolist()
        for label in range(judge.classes)
    ]
    keys_LF = unit(judge.features(encoder, judge.images_L3HW))
    slots_L = torch.arange(len(keys_LF))
    cell = height + 2 * FRAME + 2
    block = cell * (NEIGHBOURS + 1) + _GAP
    sheet = Image.new("RGB", (block * per_class + _GAP, cell * len(rows) + _GAP), "white")
    for row, shown in enumerate(rows):
        for column, index in enumerate(shown):
            place = (_GAP + column * block, _GAP // 2 + row * cell)
            image_3HW = judge.test_images_T3HW[index]
            query_1F = unit(judge.features(encoder, image_3HW[None]))
            _, near_1K = nearest(query_1F, keys_LF, slots_L, min(NEIGHBOURS, len(slots_L)))
            paste_framed(sheet, image_3HW, place, height, NEUTRAL)
            for rank, slot in enumerate(near_1K[0].tolist()):
                colour = RIGHT if judge.labels_L[slot] == judge.test_labels_T[index] else WRONG
                beside = (place[0] + _GAP // 2 + cell * (rank + 1), place[1])
                paste_framed(sheet, judge.images_L3HW[slot], beside, height, colour)
    return sheet
