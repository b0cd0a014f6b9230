import math

import pytest
import torch

from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.train.loop import LossWatch

NAMES = ("a.png", "b.png", "c.png")


def test_a_loss_that_is_not_finite_stops_with_the_names_of_its_batch_and_advice(tmp_path):
    watch = LossWatch(RunDirectory(tmp_path), NAMES)
    watch.note(4, torch.tensor(1.0), torch.tensor([0, 1]))
    watch.note(5, torch.tensor(math.nan), torch.tensor([2, 1]))
    with pytest.raises(RunError, match=r"nan at step 5.*c\.png, b\.png.*--optim\.base-lr"):
        watch.verify(6)
    assert (tmp_path / "bad_batch.txt").read_text() == "c.png\nb.png\n"


def test_finite_losses_are_forgotten_once_seen(tmp_path):
    watch = LossWatch(RunDirectory(tmp_path), NAMES)
    watch.note(0, torch.tensor(1.0), torch.tensor([0]))
    watch.verify(1)
    watch.verify(1)
    assert not list(tmp_path.iterdir())
