import pytest
import torch

from semppl.evaluate.metrics import measure_answers
from semppl.protocols.scored import number_called, numbers_of


def test_lines_of_the_table_are_in_per_cent():
    truth = torch.tensor([0, 0, 0, 1])
    answers = torch.eye(2)[torch.tensor([0, 0, 1, 1])]
    metrics = measure_answers(answers, truth, classes=2)
    numbers = {number.name: number for number in numbers_of(metrics)}
    assert list(numbers) == ["top-1", "mean per class", "calibration error"]
    assert numbers["top-1"].value == 75
    assert numbers["mean per class"].value == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert 0 <= numbers["top-1"].low <= 75 <= numbers["top-1"].high <= 100
    assert number_called(metrics, "mean per class", "x").value == numbers["mean per class"].value
    many = measure_answers(torch.eye(7), torch.arange(7), classes=7)
    assert "top-5" in [number.name for number in numbers_of(many)]
