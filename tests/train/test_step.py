from dataclasses import replace

import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import DataConfig, MethodConfig, ViewsConfig
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data.dataset import Dataset
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.nets.heads import unit
from semppl.resolve import resolved
from semppl.train.build import build_training
from semppl.train.step import train_step_
from semppl.views.photometric import finish

CPU = torch.device("cpu")


def training(npz, **changes):
    data = load_dataset(Request(source=str(npz)))
    config = resolved(tiny_config(npz, **changes), image_size=8, num_images=len(data.labels_M))
    return build_training(config, data, CPU)


@pytest.mark.parametrize("objective", ["relicv2", "simclr", "byol"])
@pytest.mark.parametrize("positives", [0, 2])
def test_every_objective_trains_with_and_without_semantic_positives(npz, objective, positives):
    run = training(npz, method=MethodConfig(objective=objective, positives=positives, queue_capacity=20))
    before = [p.clone() for p in run.state.online.parameters()]
    for _ in range(2):
        outcome = train_step_(run.state, run.feed(run.state.step), run.plan)
    assert run.state.step == 2
    assert all(torch.isfinite(term) for term in outcome.terms)
    assert (outcome.terms.semantic > 0) == (positives > 0)
    assert (outcome.votes is None) == (positives == 0)
    after = run.state.online.parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_queue_holds_the_target_projections_of_the_labelled_images_of_the_batch(npz):
    run = training(npz, method=MethodConfig(positives=2, queue_capacity=20, queue_initial_labels="none"))
    batch = run.feed(0)
    rng = generator(run.plan.seed, "photometric", 0)
    views = [
        finish(crop, view, run.plan.mean_3, run.plan.std_3, rng)
        for crop, view in zip(batch.crops, run.plan.views, strict=True)
    ]
    assert run.state.target is not None
    expected = torch.stack([unit(run.state.target(view)) for view in views[:2]])
    train_step_(run.state, batch, run.plan)
    queue = run.state.queue
    assert queue is not None
    labelled = batch.labels_B != UNLABELLED
    assert len(queue) == labelled.sum() > 0
    assert torch.equal(queue.labels_C[: len(queue)], batch.labels_B[labelled])
    assert torch.allclose(queue.embeddings_VCD[:, : len(queue)], expected[:, labelled], atol=1e-5)


def test_the_target_follows_the_new_weights_by_the_decay(npz):
    run = training(npz, method=MethodConfig(positives=2, queue_capacity=20, target_decay=0.75))
    target = run.state.target
    assert target is not None
    old = {name: p.clone() for name, p in target.module.named_parameters()}
    train_step_(run.state, run.feed(0), run.plan)
    new = dict(run.state.online.named_parameters())
    for name, p in target.module.named_parameters():
        assert torch.allclose(p, 0.75 * old[name] + 0.25 * new[name], atol=1e-6), name


def test_the_learning_rate_is_that_of_the_step(npz):
    run = training(npz)
    run.state.step = 3
    train_step_(run.state, run.feed(3), run.plan)
    assert {group["lr"] for group in run.state.optimizer.param_groups} == {run.plan.lr(3)}


def test_given_labels_alone_find_positives_for_labelled_images_only(npz):
    def semantic(labels):
        method = MethodConfig(positives=2, queue_capacity=20, queue_initial_labels="none", labels=labels)
        run = training(npz, method=method)
        return train_step_(run.state, run.feed(0), run.plan).terms.semantic

    assert 0 < semantic("given") < semantic("pseudo")


def test_a_minimum_of_votes_leaves_out_what_fewer_ballots_agree_on(npz):
    def semantic(minimum):
        method = MethodConfig(positives=2, queue_capacity=20, minimum_votes=minimum)
        run = training(npz, method=method)
        outcome = train_step_(run.state, run.feed(0), run.plan)
        return outcome.terms.semantic, outcome.votes

    (every, votes), (some, _), (unanimous, _) = semantic(0), semantic(3), semantic(4)
    assert votes is not None
    assert 1 < int(votes.counts_B.min()) < 3 <= int(votes.counts_B.max())
    assert unanimous <= some < every


def test_the_networks_may_run_in_bf16_and_everything_after_them_is_float32():
    images = torch.randint(256, (24, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    data = Dataset(
        name="noise",
        images=images[:, None].expand(-1, 3, -1, -1).contiguous(),
        labels_M=torch.arange(24) % 3,
        names=tuple(map(str, range(24))),
        classes=("a", "b", "c"),
    )
    config = tiny_config("noise", precision="bf16", batch_size=8, views=ViewsConfig(large=2, small=0))
    run = build_training(resolved(config, image_size=16, num_images=24), data, CPU)
    seen = {}

    def look(online, target, positives, *rest):
        seen.update(online=online, target=target, entries=positives.embeddings_AVPBD)
        seen["autocast"] = torch.is_autocast_enabled("cpu")
        return run.plan.objective(online, target, positives, *rest)

    run.state.online.encoder.register_forward_hook(lambda *event: seen.update(features=event[-1]))
    outcome = train_step_(run.state, run.feed(0), replace(run.plan, objective=look))
    assert seen["features"].dtype == torch.bfloat16
    assert not seen["autocast"]
    assert {seen[name].dtype for name in ("online", "target", "entries")} == {torch.float32}
    assert outcome.terms.total.dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in run.state.online.parameters())


def test_the_oracle_uses_true_labels_and_the_votes_are_still_counted():
    def run(labels):
        data = load_dataset(Request(source="digits", labels_per_class=2, oracle=labels == "oracle"))
        config = tiny_config(
            "digits",
            data=DataConfig(labels_per_class=2),
            method=MethodConfig(positives=2, queue_capacity=40, labels=labels),
        )
        return build_training(resolved(config, image_size=8, num_images=1437), data, CPU)

    oracle, pseudo = run("oracle"), run("pseudo")
    batch = oracle.feed(0)
    assert batch.oracle_B is not None
    assert (batch.oracle_B >= 0).all()
    one, other = (train_step_(r.state, r.feed(0), r.plan) for r in (oracle, pseudo))
    assert one.votes is not None
    assert torch.equal(one.votes.labels_B, other.votes.labels_B)
    assert one.terms.semantic != other.terms.semantic


def test_enqueueing_after_the_vote_leaves_an_empty_queue_without_ballots(npz):
    method = MethodConfig(positives=2, queue_capacity=20, queue_initial_labels="none", enqueue="after")
    run = training(npz, method=method)
    first = train_step_(run.state, run.feed(0), run.plan)
    assert first.votes is not None
    assert (first.votes.labels_B == UNLABELLED).all()
    assert first.terms.semantic == 0
    assert (train_step_(run.state, run.feed(1), run.plan).votes.labels_B != UNLABELLED).any()


@pytest.mark.parametrize(
    "changes",
    [
        {"semantic_partner": "store"},
        {"semantic_partner": "lockstep"},
        {"semantic_partner": "swap", "stop_gradient": "teacher"},
        {"small_partner": "run_target"},
        {"small_partner": "none", "voting": "same"},
        {"voting": "one", "k": 3, "tie": "similarity"},
        {"same_view": False},
    ],
)
def test_every_switch_of_the_method_trains(npz, changes):
    run = training(npz, method=MethodConfig(positives=2, queue_capacity=20, **changes))
    for _ in range(2):
        outcome = train_step_(run.state, run.feed(run.state.step), run.plan)
    assert torch.isfinite(outcome.terms.total)
    assert outcome.terms.semantic > 0


def test_without_small_views_and_with_one_large_view_it_still_trains(npz):
    run = training(npz, views=ViewsConfig(large=1, small=0))
    outcome = train_step_(run.state, run.feed(0), run.plan)
    assert outcome.votes is not None
    assert len(outcome.votes.ballots_JB) == 1
    assert outcome.terms.invariance_augmentation == 0


def test_votes_weigh_the_semantic_loss_by_their_share(npz):
    def semantic(power, labels="pseudo"):
        method = MethodConfig(positives=2, queue_capacity=20, vote_power=power, labels=labels)
        run = training(npz, method=method)
        return train_step_(run.state, run.feed(0), run.plan).terms.semantic

    alike, weighed, hardly = semantic(0.0), semantic(2.0), semantic(50.0)
    assert hardly < weighed < alike
    assert semantic(2.0, "given") == semantic(0.0, "given")
