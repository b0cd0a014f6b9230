import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import MethodConfig, OptimConfig
from semppl.core.rundir import RunDirectory
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.resolve import resolved
from semppl.train.build import build_training
from semppl.train.checkpoint import load_checkpoint, write_checkpoint
from semppl.train.step import train_step_

CPU = torch.device("cpu")


def training(npz, **changes):
    data = load_dataset(Request(source=str(npz)))
    return build_training(resolved(tiny_config(npz, **changes), image_size=8, num_images=48), data, CPU)


def same(one, other):
    """Equality of nested states, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def directory(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_("", overwrite=False)
    run.checkpoints.mkdir()
    return run


@pytest.mark.parametrize(
    "method", [{}, {"objective": "simclr"}, {"positives": 0}, {"semantic_partner": "store"}]
)
def test_a_checkpoint_holds_everything(npz, tmp_path, method):
    method = MethodConfig(**{"positives": 2, "queue_capacity": 20, **method})
    one, run = training(npz, method=method), directory(tmp_path)
    for _ in range(3):
        train_step_(one.state, one.feed(one.state.step), one.plan)
    path = write_checkpoint(run, one.state.state_dict(), {"split": "s"})
    other = training(npz, method=method)
    assert not same(one.state.state_dict(), other.state.state_dict())
    content = load_checkpoint(path)
    other.state.load_state_dict_(content["state"])
    assert content["split"] == "s"
    assert same(one.state.state_dict(), other.state.state_dict())


@pytest.mark.parametrize("optimiser", ["adamw", "sgd", "lars"])
def test_buffers_lie_in_memory_as_the_weights_of_this_device_do(npz, optimiser):
    optim = OptimConfig(name=optimiser, base_lr=0.01)
    one, other = training(npz, optim=optim), training(npz, optim=optim)
    # as on a CPU without oneDNN
    one.state.online.to(memory_format=torch.contiguous_format)
    train_step_(one.state, one.feed(0), one.plan)
    other.state.load_state_dict_(one.state.state_dict())
    laid_out = 0
    for weight, buffers in other.state.optimizer.state.items():
        for value in buffers.values():
            if isinstance(value, torch.Tensor) and value.shape == weight.shape:
                assert value.stride() == weight.stride()
                laid_out += weight.ndim == 4 and not weight.is_contiguous()
    assert laid_out > 5
    assert same(other.state.state_dict(), one.state.state_dict())


def test_options_that_belong_to_the_device_are_this_runs_and_the_others_the_checkpoints(npz):
    optim = OptimConfig(name="adamw", base_lr=0.01)
    run = training(npz, optim=optim)
    train_step_(run.state, run.feed(0), run.plan)
    state = run.state.state_dict()
    for group in state["optimizer"]["param_groups"]:
        group |= {"fused": None, "capturable": True, "lr": 0.123}
    other = training(npz, optim=optim)
    other.state.load_state_dict_(state)
    for group in other.state.optimizer.param_groups:
        assert (group["fused"], group["capturable"], group["lr"]) == (True, False, 0.123)


def test_a_rate_on_the_device_is_stored_as_a_number(npz):
    run = training(npz, optim=OptimConfig(name="lars"))
    run.state.set_lr_(torch.tensor(0.25))
    assert {group["lr"] for group in run.state.state_dict()["optimizer"]["param_groups"]} == {0.25}
