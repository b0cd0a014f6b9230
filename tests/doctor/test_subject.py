import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config

from semppl.config import Config, DataConfig, MethodConfig, NetConfig, ViewsConfig
from semppl.core.errors import UserError
from semppl.doctor.subject import IMAGENET, find_subject
from semppl.presets import paper
from semppl.train.build import build_training, normalisation

CPU = torch.device("cpu")


@pytest.fixture
def console():
    return Console(width=100, record=True)


def test_the_users_data_is_read_and_announced(npz, console):
    subject = find_subject(tiny_config(npz), CPU, console)
    assert "48 images" in console.export_text()
    assert (subject.num_images, subject.random) == (48, False)
    assert subject.config.batch_size == 16
    assert subject.config.views.large_size == 8


def test_colours_are_measured_once(npz, console):
    config = tiny_config(npz)
    subject = find_subject(config, CPU, console)
    mean_3, std_3 = subject.dataset.statistics()
    found = normalisation(subject.config, subject.dataset)
    assert torch.allclose(found[0], mean_3)
    assert torch.allclose(found[1], std_3)


def test_without_data_a_run_is_one_on_imagenet(console):
    subject = find_subject(paper(), CPU, console)
    assert (subject.num_images, subject.random) == (IMAGENET, True)
    assert subject.config.total_steps(subject.num_images) == 93_835
    assert len(subject.dataset.classes) == 1000
    assert subject.dataset.images.shape[1:] == (3, 256, 256)
    assert console.export_text() == ""


def test_thumbnails_are_as_small_as_their_views(console):
    subject = find_subject(Config(views=ViewsConfig(large_size=32)), CPU, console)
    assert subject.dataset.images.shape[2:] == (32, 32)
    assert subject.config.net.encoder == "resnet18"


def test_what_cannot_work_is_refused_as_in_training(npz, console):
    with pytest.raises(UserError, match="batch size 49 is larger than the data"):
        find_subject(tiny_config(npz, batch_size=49), CPU, console)


def test_another_batch_keeps_what_the_real_one_decided(console):
    subject = find_subject(paper(), CPU, console)
    tried = subject.to_try(4)
    assert tried.batch_size == 4
    assert tried.method.negatives == 3
    assert tried.method.queue_capacity == 81_920
    assert tried.optim.name == "lars"
    assert subject.to_try(64).method.negatives == 10


def test_compiling_is_for_those_who_ask_and_where_it_matters(npz, console):
    plain, asked = (
        find_subject(tiny_config(npz, speed=speed), CPU, console) for speed in ("auto", "compile")
    )
    assert plain.to_try(4).speed == "graph"
    assert asked.to_try(4).speed == "compile"
    assert asked.to_try(4, parts=2).speed == "graph"
    assert asked.to_try(4, compiled=False).speed == "graph"


def test_parts_are_the_users_or_those_asked_for(npz, console):
    subject = find_subject(tiny_config(npz, micro_batch=8), CPU, console)
    assert subject.to_try(16).micro_batch == 8
    assert subject.to_try(4).micro_batch == 4
    assert subject.to_try(16, parts=2).micro_batch == 2
    assert find_subject(tiny_config(npz), CPU, console).to_try(16).micro_batch is None


def test_the_oracle_finds_its_labels_in_random_images(console):
    config = Config(
        batch_size=4,
        data=DataConfig(labels_per_class=1),
        views=ViewsConfig(large=1, small=0, large_size=8),
        net=NetConfig(encoder="resnet10", width=0.0625, head_hidden=8, head_outputs=4),
        method=MethodConfig(labels="oracle", queue_capacity=10),
    )
    subject = find_subject(config, CPU, console)
    training = build_training(subject.to_try(4), subject.dataset, CPU)
    assert torch.isfinite(training.step(training.feed(0)).terms.total)
