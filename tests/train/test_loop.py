import math
from dataclasses import replace

import pytest
import torch
from tests.train.test_state import training
from torch import nn

import semppl.train.loop as loop
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.nets.heads import Projected
from semppl.train.loop import LossWatch
from semppl.train.state import TrainState

NAMES = ("a.png", "b.png", "c.png")


def state():
    online = Projected(nn.Linear(2, 2), nn.Linear(2, 2))
    return TrainState(online, nn.Identity(), None, None, torch.optim.SGD(online.parameters()))


def test_a_loss_that_is_not_finite_stops_with_the_names_of_its_batch_and_advice(tmp_path):
    watch = LossWatch(RunDirectory(tmp_path), NAMES)
    watch.note(4, torch.tensor(1.0), torch.tensor([0, 1]))
    watch.note(5, torch.tensor(math.nan), torch.tensor([2, 1]))
    with pytest.raises(RunError, match=r"nan at step 5, batch of c\.png, b\.png.*--optim\.base-lr"):
        watch.verify(state())
    assert (tmp_path / "bad_batch.txt").read_text() == "c.png\nb.png\n"


def test_weights_that_are_not_finite_stop_too(tmp_path):
    watch, broken = LossWatch(RunDirectory(tmp_path), NAMES), state()
    with torch.no_grad():
        broken.online.encoder.weight[0, 1] = math.inf
    watch.note(7, torch.tensor(1.0), torch.tensor([0, 1]))
    with pytest.raises(RunError, match=r"weights are not finite after step 7, batch of a\.png"):
        watch.verify(broken)


def test_finite_losses_are_forgotten_once_seen(tmp_path):
    watch = LossWatch(RunDirectory(tmp_path), NAMES)
    watch.note(0, torch.tensor(1.0), torch.tensor([0]))
    watch.verify(state())
    watch.verify(state())
    assert not list(tmp_path.iterdir())


def test_a_full_memory_is_said_with_what_to_do(npz):
    run = training(npz)

    def full(batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate much.")

    with pytest.raises(RunError, match=r"memory of cpu is full: go on with --resume --micro-batch 16"):
        loop._step(replace(run, step=full), run.feed(0))
