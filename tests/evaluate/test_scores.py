from dataclasses import replace

import pytest
import torch
from torch import nn

from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.evaluate.scores import Judge

CPU = torch.device("cpu")


class Rows(nn.Module):
    """Sees where the stripe is."""

    def forward(self, x):
        return x.mean((1, 3))


class Blind(nn.Module):
    """Sees the same in every image."""

    def forward(self, x):
        return torch.ones(len(x), 4)


def test_an_encoder_that_sees_the_class_scores_100_and_a_blind_one_does_not(npz):
    judge = Judge(load_dataset(Request(source=str(npz))), 8, CPU)
    seeing, blind = judge.score(Rows()), judge.score(Blind())
    assert (seeing.knn, seeing.linear) == (100.0, 100.0)
    assert blind.knn == blind.linear == pytest.approx(100 / 3)


def test_pixels_need_no_encoder(npz):
    assert Judge(load_dataset(Request(source=str(npz))), 8, CPU).score(None).knn > 50


def test_a_classifier_of_its_own_is_judged_as_it_is(npz):
    judge = Judge(load_dataset(Request(source=str(npz))), 8, CPU)
    head = nn.Linear(8, 3)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    assert judge.head_accuracy(Rows(), head) == pytest.approx(100 / 3)


def test_the_protocol_counts_labels_and_test_images(npz):
    assert Judge(load_dataset(Request(source=str(npz))), 8, CPU).protocol.startswith(
        "12 test images; 6 labels; k-NN"
    )


def test_without_test_images_there_is_nothing_to_judge(npz):
    data = load_dataset(Request(source=str(npz)))
    with pytest.raises(TypeError, match="test images in memory"):
        Judge(replace(data, test_images=None), 8, CPU)
    with pytest.raises(ValueError, match="no labels of test images"):
        Judge(replace(data, test_labels_T=None), 8, CPU)
