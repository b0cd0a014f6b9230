import pytest
import torch

from semppl.evaluate.exam import mark_of
from semppl.evaluate.metrics import measure_answers
from semppl.protocols.scored import number_called, numbers_of, weakest


def test_lines_of_the_table_are_in_per_cent():
    truth = torch.tensor([0, 0, 0, 1])
    answers = torch.eye(2)[torch.tensor([0, 0, 1, 1])]
    metrics = measure_answers(answers, truth, classes=2)
    numbers = {number.name: number for number in numbers_of(metrics)}
    assert list(numbers) == ["top-1", "mean per class", "calibration error"]
    assert numbers["top-1"].value == 75
    assert numbers["mean per class"].value == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert numbers["top-1"].low == pytest.approx(mark_of(0.75, 4).low), "Wilson's"
    sure = number_called(measure_answers(torch.eye(2), torch.arange(2), classes=2), "top-1", "x")
    assert sure.low < 100, "two right answers prove little"
    assert number_called(metrics, "mean per class", "x").value == numbers["mean per class"].value
    many = measure_answers(torch.eye(7), torch.arange(7), classes=7)
    assert "top-5" in [number.name for number in numbers_of(many)]


def test_the_weakest_classes_are_named_with_their_images():
    truth = torch.tensor([0, 0, 1, 1, 1, 1, 2])
    answers = torch.eye(4)[torch.tensor([0, 1, 1, 1, 1, 0, 2])]
    metrics = measure_answers(answers, truth, classes=4)
    assert weakest(metrics, ("a", "b", "c", "d")) == "a 50% of 2, b 75% of 4"
    assert weakest(metrics, ("a", "b", "c", "d"), most=1) == "a 50% of 2"
