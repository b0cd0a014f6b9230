import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import DataConfig
from semppl.core.cores import usable_cores
from semppl.core.errors import UserError
from semppl.train.device import (
    choose_device,
    choose_workers,
    memory_for_pixels,
    memory_layout,
    require_precision,
)

CPU = torch.device("cpu")


def test_devices_are_checked():
    assert choose_device("cpu") == CPU
    with pytest.raises(UserError, match="unknown device"):
        choose_device("abacus")
    with pytest.raises(UserError, match="'meta' is not supported"):
        choose_device("meta")
    with pytest.raises(UserError, match="usable GPUs"):
        choose_device("cuda:99")
    if not torch.cuda.is_available():
        assert choose_device("auto") == CPU


def test_training_on_the_cpu_leaves_it_some_cores():
    config = tiny_config("digits")
    assert choose_workers(config, torch.device("cuda")) == usable_cores()
    assert choose_workers(config, CPU) == max(usable_cores() // 2, 1)
    assert choose_workers(tiny_config("digits", data=DataConfig(workers=0)), CPU) == 0


def test_pixels_take_a_quarter_of_the_memory_and_at_most_4_gib():
    assert 0 < memory_for_pixels(CPU) <= 2**32


def test_channels_lie_last_where_that_is_fast(monkeypatch):
    assert memory_layout(torch.device("cuda")) is torch.channels_last
    for available, layout in ((True, torch.channels_last), (False, torch.contiguous_format)):
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda answer=available: answer)
        assert memory_layout(CPU) is layout


def test_low_precision_is_for_gpus():
    require_precision("bf16", torch.device("cuda"))
    require_precision("fp32", torch.device("cpu"))
    with pytest.raises(UserError, match="--precision bf16 is for GPUs"):
        require_precision("bf16", torch.device("cpu"))
