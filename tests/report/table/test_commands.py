import shlex
from dataclasses import replace

import pytest
from tests.report.table.conftest import configured, numbers, outcome, write_run

from semppl.config import Config, ViewsConfig
from semppl.parse import parse
from semppl.presets import digits, paper
from semppl.report.collect import collect
from semppl.report.table.commands import evaluating, training


def command_of(path, config):
    run = collect(write_run(path, config, {}))
    (command,), others = training([run], {path: "runs/x"})
    assert others == []
    return command


ODD = Config(
    source="CIFAR10",
    epochs=1.5,
    seed=3,
    speed="compile",
    data=replace(
        Config().data,
        labels_per_class=4,
        split_seed=7,
        validation=0.0,
        labelled_fraction=0.0625,
        balance_labels=True,
    ),
    views=ViewsConfig(large=2, small=0, colour=False, flip=0.0),
    net=replace(Config().net, mean=(0.5, 0.25, 0.1), std=(1.0, 1.0, 1.0), sk=True),
    method=replace(Config().method, same_view=False, target_decay=0.995448856525202),
)


@pytest.mark.parametrize("config", [ODD, digits(), replace(digits(), seed=4), replace(paper(), source="x")])
def test_the_command_asks_for_the_same_configuration(tmp_path, config):
    verb = parse(shlex.split(command_of(tmp_path / "r", config))[1:])
    resolved = replace(verb.config, source=verb.data)
    free = {"probe_every": config.probe_every, "checkpoint_every": config.checkpoint_every}
    assert replace(resolved, **free) == config
    assert str(verb.out) == "runs/x"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"path": "/data/runs/first", "step": 9}', "first"),
        ('{"path": "runs/first"}', "runs/first"),
        ("{", "RUN"),
    ],
)
def test_weights_of_another_run_are_named(tmp_path, content, named):
    run = collect(write_run(tmp_path, digits(), {}))
    (tmp_path / "started_from.json").write_text(content)
    (command,), _ = training([run], {tmp_path: "runs/x"})
    assert command == f"semppl pretrain digits --preset digits --seed 0 --init-from {named} --out runs/x"


def test_a_preset_is_named_where_the_run_is_one_of_its_kind(tmp_path):
    assert (
        command_of(tmp_path / "a", digits()) == "semppl pretrain digits --preset digits --seed 0 --out runs/x"
    )
    assert "--preset paper" in command_of(tmp_path / "b", replace(paper(), source="x", epochs=100.0))
    assert "--preset" not in command_of(tmp_path / "c", configured())
    other = replace(digits(), batch_size=512, net=Config().net, method=Config().method, optim=Config().optim)
    assert "--preset" not in command_of(tmp_path / "d", other)


def test_a_preset_of_which_half_is_gone_is_not_named(tmp_path):
    # all that it says of views, network and optimiser, 10 of its 16 values, to other ones than the usual
    start = replace(paper(), source="x")
    other = replace(
        start,
        views=replace(start.views, large_size=32, small_size=16, recipe="small_images"),
        net=replace(start.net, encoder="resnet18", stem="small", last_scale=1.0),
        optim=replace(start.optim, name="sgd", base_lr=0.1, weight_decay=0.1, warmup_epochs=1.0),
    )
    assert "--preset" not in command_of(tmp_path / "a", other)
    assert "--preset paper" in command_of(tmp_path / "b", replace(other, optim=start.optim))


def test_no_machine_and_a_split_only_where_it_is_not_the_seed(tmp_path):
    config = replace(configured(seed=1, split_seed=1), device="cuda:3", log_every=5, timeout=9.0)
    words = command_of(tmp_path / "a", config)
    assert words == (
        "semppl pretrain cifar.npz --epochs 10 --batch-size 16 --labels-per-class 400 --seed 1 --out runs/x"
    )
    assert "--seed 1 --data.split-seed 2" in command_of(tmp_path / "b", configured(seed=1, split_seed=2))


def test_other_seeds_say_what_is_other(tmp_path):
    runs = [collect(write_run(tmp_path / str(i), configured(seed=i), {})) for i in range(2)]
    (command,), others = training(runs, {run.path: f"r {run.seed}" for run in runs})
    assert command.endswith("--seed 0 --out 'r 0'")
    assert others == ["--seed 1 --out 'r 1'"]


def test_runs_with_more_than_seeds_of_their_own_have_a_whole_command(tmp_path):
    configs = [
        configured(seed=0, method={"positives": 0}),
        configured(seed=1, method={"positives": 0}, per_class=50),
        replace(configured(seed=2, method={"positives": 0}), source="/data/other.npz"),
        replace(configured(seed=3, method={"positives": 0}), source="/elsewhere/cifar.npz"),
    ]
    runs = [collect(write_run(tmp_path / str(i), config, {})) for i, config in enumerate(configs)]
    whole, others = training(runs, {run.path: f"r{run.seed}" for run in runs})
    given = "--epochs 10 --batch-size 16 --labels-per-class {} --method.positives 0"
    assert whole == [
        f"semppl pretrain cifar.npz {given.format(400)} --seed 0 --out r0",
        f"semppl pretrain cifar.npz {given.format(50)} --seed 1 --out r1",
        f"semppl pretrain other.npz {given.format(400)} --seed 2 --out r2",
    ]
    assert others == ["--seed 3 --out r3"]


def test_evaluations_alike_are_one_command_for_all_runs(tmp_path):
    found = []
    for seed in range(2):
        evaluations = {
            "knn": outcome(90.0),
            "linear": outcome(90.0),
            "finetune-c": outcome(90.0, name="c", confident=0.9),
            "linear-l4": outcome(50.0, labels=40, name="l4", labels_per_class=4, split_seed=seed),
        }
        evaluations["finetune-c"]["flags"]["protocol"] = ["finetune"]
        found += numbers(tmp_path / str(seed), configured(seed=seed), evaluations)
    commands = evaluating(found, {tmp_path / "0": "a", tmp_path / "1": "b"})
    assert sorted(commands) == [
        "semppl evaluate a --protocol knn linear --labels-per-class 4 --split-seed 0 --name l4",
        "semppl evaluate a b --protocol finetune --confident 0.9 --name c",
        "semppl evaluate a b --protocol knn linear",
        "semppl evaluate b --protocol knn linear --labels-per-class 4 --split-seed 1 --name l4",
    ]
    for command in commands:
        parse(shlex.split(command)[1:])


def test_an_evaluation_without_flags_is_known_by_its_file(tmp_path):
    content = outcome(90.0)
    del content["flags"]
    found = numbers(tmp_path / "a", configured(), {"knn": content, "linear-x": content})
    assert sorted(evaluating(found, {tmp_path / "a": "a"})) == [
        "semppl evaluate a --protocol knn",
        "semppl evaluate a --protocol linear --name x",
    ]
