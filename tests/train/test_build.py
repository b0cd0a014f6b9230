from dataclasses import replace

import pytest
import torch
from tests.conftest import tiny_config
from torch.optim import SGD, AdamW

from semppl.config import DataConfig, MethodConfig, NetConfig, OptimConfig, ViewsConfig
from semppl.core.errors import UserError
from semppl.core.share import Share
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.optim.lars import LARS
from semppl.resolve import resolved
from semppl.train.build import (
    COMPILE_FROM_STEPS,
    build_state,
    build_training,
    build_views,
    choose_speed,
    uses_bf16,
)
from semppl.train.ranks import Ranks

CPU = torch.device("cpu")


def config(**changes):
    return resolved(tiny_config("digits", **changes), image_size=8, num_images=1437)


@pytest.mark.parametrize(("name", "kind"), [("lars", LARS), ("sgd", SGD), ("adamw", AdamW)])
def test_the_optimiser_is_the_one_named_and_biases_do_not_decay(name, kind):
    state = build_state(config(optim=OptimConfig(name=name, base_lr=1.0)), 10, CPU)
    assert type(state.optimizer) is kind
    counted = sum(len(group["params"]) for group in state.optimizer.param_groups)
    assert counted == len([*state.online.parameters(), *state.predictor.parameters()])
    if name != "lars":
        for group in state.optimizer.param_groups:
            assert (group["weight_decay"] == 0) == all(p.ndim <= 1 for p in group["params"])
    assert state.optimizer.param_groups[0]["lr"] == pytest.approx(16 / 256)


def test_weights_are_a_function_of_the_seed_and_the_global_generator_is_left_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same = (build_state(config(seed=1), 10, CPU) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    other = build_state(config(seed=2), 10, CPU)
    assert torch.equal(one.online.encoder.conv1.weight, same.online.encoder.conv1.weight)
    assert not torch.equal(one.online.encoder.conv1.weight, other.online.encoder.conv1.weight)


def test_simclr_has_one_network_and_no_predictor():
    state = build_state(config(method=MethodConfig(objective="simclr")), 10, CPU)
    assert state.target is None
    assert not list(state.predictor.parameters())


@pytest.mark.parametrize("changes", [{"positives": 0}, {"alpha": 0.0}])
def test_without_semantic_positives_there_is_no_queue(changes):
    assert build_state(config(method=MethodConfig(**changes)), 10, CPU).queue is None


def test_views_follow_the_switches():
    views = build_views(
        resolved(
            tiny_config(
                "x", views=ViewsConfig(large=2, small=1, recipe="paper", min_area=0.5, solarise=False)
            ),
            image_size=128,
            num_images=99,
        ).views
    )
    assert [view.size for view in views] == [128, 128, 64]
    assert [view.min_area for view in views] == [0.5, 0.5, 0.05]
    assert [view.solarise for view in views] == [0, 0, 0]
    assert [view.blur for view in views] == [0.1, 1.0, 0.1]
    plain = build_views(config(views=ViewsConfig(large=1, small=0, colour=False, flip=0.0)).views)[0]
    assert (plain.hue, plain.saturation, plain.grey, plain.flip) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": MethodConfig(stop_gradient="teacher")}, "without a gradient"),
        ({"net": NetConfig(encoder="resnet10", width=0.001)}, "width 0.001 leaves no channel"),
        ({"views": ViewsConfig(flip=1.5)}, "flip is a probability"),
        ({"views": ViewsConfig(blur_taps=4)}, "odd number of taps"),
        ({"views": ViewsConfig(min_area=2.0)}, "areas from 2.0 to 1.0"),
    ],
)
def test_a_value_that_a_part_refuses_is_the_users(changes, words):
    with pytest.raises(UserError, match=words):
        build_training(config(**changes), load_dataset(Request(source="digits", labels_per_class=2)), CPU)


def test_a_labelled_fraction_needs_unlabelled_images():
    data = load_dataset(Request(source="digits"))
    with pytest.raises(UserError, match="one kind is missing"):
        build_training(config(data=DataConfig(labelled_fraction=0.5)), data, CPU)


def test_schedules_span_the_run():
    run = build_training(config(epochs=4.0, optim=OptimConfig(name="sgd", base_lr=1.6, warmup_epochs=1.0)),
                         load_dataset(Request(source="digits", labels_per_class=5)), CPU)  # fmt: skip
    assert run.total_steps == int(4 * 1437 / 16)
    assert run.plan.lr(0) == 0
    assert run.plan.lr(90) == pytest.approx(0.1)
    assert run.plan.lr(run.total_steps) == pytest.approx(0, abs=1e-9)


def test_a_penalty_that_is_not_there_needs_no_gradient():
    method = MethodConfig(positives=0, stop_gradient="teacher")
    objective = build_training(
        config(method=method), load_dataset(Request(source="digits")), CPU
    ).plan.objective
    assert objective.stop_gradient == "teacher"


def test_bf16_is_for_gpus_unless_asked_for():
    assert not uses_bf16(config(), CPU)
    assert uses_bf16(config(precision="bf16"), CPU)
    assert uses_bf16(config(), torch.device("cuda"))
    assert not uses_bf16(config(precision="fp32"), torch.device("cuda"))


def test_compiling_is_for_gpus_and_for_runs_that_earn_it():
    gpu = torch.device("cuda")
    few, many = COMPILE_FROM_STEPS - 1, COMPILE_FROM_STEPS
    assert choose_speed(config(), many, CPU) == "eager"
    assert choose_speed(config(speed="compile"), many, CPU) == "eager"
    assert choose_speed(config(), few, gpu) == "graph"
    assert choose_speed(config(), many, gpu) == "compile"
    assert choose_speed(config(micro_batch=8), many, gpu) == "graph"
    assert choose_speed(config(speed="eager"), many, gpu) == "eager"
    assert choose_speed(config(speed="compile"), few, gpu) == "compile"


def test_a_constant_decay_is_known_as_such(npz):
    def plan(schedule):
        method = MethodConfig(target_schedule=schedule, target_decay=0.9, queue_capacity=20)
        data = load_dataset(Request(source=str(npz)))
        ready = resolved(tiny_config(npz, method=method), image_size=8, num_images=48)
        return build_training(ready, data, CPU).plan

    assert plan("constant").constant_decay == 0.9
    assert plan("cosine").constant_decay is None


@pytest.mark.parametrize(("batch", "micro", "world"), [(18, 2, 4), (16, 3, 2), (18, 6, 2)])
def test_parts_must_be_alike_on_all_ranks(batch, micro, world):
    ranks = Ranks(Share(0, world))
    with pytest.raises(UserError, match=f"--micro-batch {micro} does not divide the shares of {world} ranks"):
        build_training(replace(config(), batch_size=batch, micro_batch=micro), None, CPU, ranks)


def test_a_batch_smaller_than_its_ranks_is_refused():
    with pytest.raises(UserError, match=r"--batch-size 2 is too small to be shared by 3 ranks"):
        build_training(replace(config(), batch_size=2), None, CPU, Ranks(Share(0, 3)))
