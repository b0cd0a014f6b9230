import shlex
from dataclasses import asdict, replace

import pytest
from tests.report.table.conftest import write_run

from semppl.config import Config, MethodConfig, NetConfig, OptimConfig, ViewsConfig
from semppl.differing import flat
from semppl.parse import parse
from semppl.presets import PRESETS
from semppl.report.collect import collect
from semppl.report.table.commands import training
from semppl.report.table.unsaid import to_say
from semppl.resolve import resolved

IMAGES = 50_000


def complete(config, num_images=IMAGES):
    return resolved(config, image_size=32, num_images=num_images, num_classes=10)


def differing(config, preset):
    values, usual = flat(asdict(config)), flat(asdict(PRESETS[preset]()))
    return values, [name for name in values if values[name] != usual[name]]


def said(config, preset="auto", num_images=IMAGES):
    values, names = differing(config, preset)
    return to_say(values, preset, names, num_images)


def test_a_preset_on_its_data_says_what_more_than_its_numbers_decide():
    assert said(complete(PRESETS["cifar10-250"]()), "cifar10-250") == ["data.masks"]


def test_what_the_data_alone_decide_is_said():
    assert set(said(complete(Config()))) == {"data.masks", "views.large_size", "method.queue_capacity"}


def test_another_value_than_the_one_that_would_be_chosen_is_said():
    config = complete(Config(method=MethodConfig(negatives=3), optim=OptimConfig(weight_decay=2e-4)))
    assert {"method.negatives", "optim.weight_decay"} <= set(said(config))
    assert "optim.base_lr" not in said(config)


def test_a_value_that_another_one_decides_needs_no_word_once_that_one_is_said():
    config = complete(Config(optim=OptimConfig(name="sgd")))
    assert config.optim.base_lr == 0.3, "another than that of the optimizer that would be chosen"
    assert "optim.name" in said(config)
    assert "optim.base_lr" not in said(config)


@pytest.mark.parametrize(
    "strange",
    [
        {"method.objective": "dino"},
        {"epochs": None},
        {"epochs": "10"},
        {"epochs": float("inf")},
        {"epochs": float("nan")},
        {"views.large_size": "32"},
    ],
)
def test_a_run_of_another_version_or_by_hand_says_all(strange):
    values, names = differing(complete(Config()), "auto")
    names = list(dict.fromkeys([*names, *strange]))
    assert to_say(values | strange, "auto", names, IMAGES) == names


def test_what_is_said_always():
    values, names = differing(complete(Config()), "auto")
    more = set(to_say(values, "auto", names, IMAGES, always={"net.last_scale"})) - set(
        said(complete(Config()))
    )
    assert more == {"net.last_scale"}


def test_a_run_of_unknown_data_says_all():
    values, names = differing(complete(Config()), "auto")
    assert to_say(values, "auto", names, 0) == names


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        PRESETS["cifar10-40"](),
        replace(PRESETS["cifar10-4000"](), epochs=100.0, speed="compile"),
        replace(PRESETS["cifar10-4000"](), method=MethodConfig(objective="byol", same_view=True)),
        Config(epochs=3.0, batch_size=1024, views=ViewsConfig(small_size=12, recipe="paper")),
        Config(net=NetConfig(encoder="resnet50", stem="imagenet", last_scale=0.0, padding="same")),
        Config(net=NetConfig(mean=(0.5, 0.25, 0.1), std=(1.0, 1.0, 1.0))),
    ],
)
def test_the_shorter_command_makes_the_same_run(tmp_path, config):
    config = complete(replace(config, source="c.npz"))
    path = write_run(tmp_path / "run", config, {})
    (path / "split.csv").write_text("name,label,role\n")
    run = replace(collect(path), roles={"labelled": 4000, "unlabelled": 46_000, "test": 10_000})
    (command,), _ = training([run], {path: "x"})
    verb = parse(shlex.split(command)[1:])
    again = complete(replace(verb.config, source=verb.data))
    every = {name: getattr(config, name) for name in ("probe_every", "checkpoint_every", "log_every")}
    assert replace(again, **every) == config
    assert "--net.head-hidden" not in command
