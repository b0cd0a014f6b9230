import pytest
import torch
from tests.conftest import tiny_config

from semppl.core.errors import RunError
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.train.build import build_training
from semppl.train.estimate import estimate

CPU = torch.device("cpu")


def test_a_step_is_timed_and_nothing_else_changes(npz):
    data = load_dataset(Request(source=str(npz)))
    found = estimate(tiny_config(npz, epochs=0.0), data, CPU)
    assert found.batch_size == 16
    assert 0 < found.seconds_per_step < 10


def test_the_batch_is_halved_until_it_fits(npz):
    data, tried = load_dataset(Request(source=str(npz))), []

    def build(config, dataset, device):
        tried.append(config.batch_size)
        if config.batch_size > 24:
            raise torch.OutOfMemoryError("too large")
        return build_training(config, dataset, device)

    assert estimate(tiny_config(npz, batch_size=48), data, CPU, build=build).batch_size == 12 * 2
    assert tried == [48, 24]


def test_a_memory_that_fits_nothing_is_said_in_one_line(npz):
    def build(*_):
        raise torch.OutOfMemoryError("too large")

    data = load_dataset(Request(source=str(npz)))
    with pytest.raises(RunError, match=r"too small even for 16 images .*--views.large-size"):
        estimate(tiny_config(npz, batch_size=32), data, CPU, build=build)


def test_files_are_streamed_and_their_workers_end(class_folders):
    data = load_dataset(Request(source=str(class_folders), labels_per_class=2, feed="streaming"))
    assert estimate(tiny_config(class_folders, batch_size=8), data, CPU).batch_size == 8
