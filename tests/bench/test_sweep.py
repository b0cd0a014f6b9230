import torch

from semppl.bench.sweep import time_sweep


def test_a_part_of_the_papers_sweep_is_timed():
    result = time_sweep(torch.device("cpu"), settings=4, images=150, features=8, classes=3)
    assert result["settings"] == 4
    assert result["seconds"] > 0
    # 128 images at a time: settings 0, 3000, 6000 and 9000 of the paper, each of 20 epochs of 2 steps at most
    assert 4 * 20 <= result["updates"] <= 4 * 24
    assert result["median_accuracy"] <= result["best_accuracy"] <= 100
