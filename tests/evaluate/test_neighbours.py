from collections import Counter

import numpy as np
import torch
from torch import nn

from semppl.core.drawing import RIGHT, WRONG
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.evaluate.neighbours import neighbour_sheet
from semppl.evaluate.scores import NEIGHBOURS, Judge


class Rows(nn.Module):
    def forward(self, x):
        return x.mean((1, 3))


def test_frames_tell_neighbours_of_the_same_class_from_others(npz):
    judge = Judge(load_dataset(Request(source=str(npz))), 8, torch.device("cpu"))
    sheet = neighbour_sheet(judge, Rows(), per_class=1, height=16)
    pixels = Counter(map(tuple, np.asarray(sheet).reshape(-1, 3).tolist()))
    corner = {colour: tuple(bytes.fromhex(colour[1:])) for colour in (RIGHT, WRONG)}
    frame = 22 * 22 - 16 * 16
    # 3 classes with 2 labels each: of the 5 nearest, 2 are of the same class
    assert pixels[corner[RIGHT]] == 3 * 2 * frame
    assert pixels[corner[WRONG]] == 3 * (NEIGHBOURS - 2) * frame
    assert sheet.getpixel((24 - 2, 12 - 2)) == (0, 0, 0)
