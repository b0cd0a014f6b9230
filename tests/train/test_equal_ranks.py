"""One, two and four ranks compute the same: losses, gradients, votes, queue, statistics and weights."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.conftest import stripes_npz, tiny_config
from tests.train.world import in_ranks
from torch.nn.functional import normalize

from semppl.config import MethodConfig, NetConfig, OptimConfig
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.resolve import resolved
from semppl.train import build, encode
from semppl.train.build import build_training
from semppl.train.encode import Nets
from semppl.train.parallel import spread_
from semppl.train.ranks import ALONE

CPU = torch.device("cpu")
FLAT = {"optim": OptimConfig(name="sgd", base_lr=0.5, momentum=0.9)}


def doubled_(state):
    """In float64 nothing is left of the order in which numbers are added up."""
    for module in (state.predict, state.target and state.target.module):
        if module is not None:
            module.double()
    if state.queue is not None:
        for name in ("_embeddings", "_predictions"):
            content = getattr(state.queue, name)
            setattr(state.queue, name, None if content is None else content.double())


def trained(ranks, device, npz, changes, exact=True, steps=2):
    """Everything that there is to compare, after each of a few steps."""
    data = load_dataset(Request(source=npz, require_labels=False))
    config = resolved(tiny_config(npz, **FLAT | changes), image_size=8, num_images=48, num_classes=3)
    if not exact:
        return stepped(ranks, build_training(config, data, device, ranks), steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "unit", partial(normalize, dim=-1))
        patch.setattr(build, "spread_", lambda state, *rest: (doubled_(state), spread_(state, *rest)))
        run = build.build_training(config, data, device, ranks)
        plan = replace(run.plan, nets=Nets(lambda net, x: net(x.double()), lambda head, x: head(x)))
        return stepped(ranks, replace(run, plan=plan, step=build.build_step(run.state, plan, "eager")), steps)


def stepped(ranks, run, steps):
    seen = {"labelled": []}
    for step in range(steps):
        batch = run.feed(step)
        rows = ranks.rows(len(batch.labels_B))
        assert all(len(crop) == len(rows) for crop in batch.crops)
        seen["labelled"].append(int((batch.labels_B[rows.slice] >= 0).sum()))
        outcome = run.step(batch)
        seen[f"{step} losses"] = torch.stack(list(outcome.terms))
        for part, module in (("online", run.state.online), ("predictor", run.state.predictor)):
            seen |= {f"{step} {part} {k}": p.grad.clone() for k, p in module.named_parameters()}
        if outcome.votes is not None:
            seen |= {f"{step} votes {k}": v for k, v in outcome.votes._asdict().items()}
    state = run.state.state_dict()
    del state["optimizer"]
    for part, content in state.items():
        if isinstance(content, dict):
            seen |= {f"{part} {k}": v.clone() for k, v in content.items()}
    return seen


def differences(one, other, within, least=1e-3):
    """What is further apart, relative to the largest number of a tensor, and to `least` if that is larger:
    some gradients are zero but for rounding.
    """
    assert one.keys() == other.keys()
    apart = {}
    for name, expected in one.items():
        if isinstance(expected, torch.Tensor):
            scale = expected.double().abs().max().clamp(min=least)
            apart[name] = float((expected.double() - other[name].double()).abs().max() / scale)
    return {name: distance for name, distance in apart.items() if not distance <= within}


def exactly(**changes):
    return changes, True


def singly(**changes):
    return changes, False


SK = NetConfig(encoder="resnet50", sk=True, width=0.0625, head_hidden=16)
SLOW = OptimConfig(name="sgd", base_lr=0.01)
CASES = {
    "SemPPL": exactly(),
    "a batch that ranks do not divide": exactly(batch_size=7),
    "small views through the target": exactly(method=MethodConfig(small_partner="run_target", positives=2)),
    "swapped partner": exactly(method=MethodConfig(semantic_partner="swap", positives=1)),
    "stored partner": exactly(method=MethodConfig(semantic_partner="store", positives=1, k=3)),
    "lockstep, enqueue after": exactly(method=MethodConfig(semantic_partner="lockstep", enqueue="after")),
    "weighed votes": exactly(method=MethodConfig(vote_power=2.0, tie="similarity")),
    "SimCLR": exactly(method=MethodConfig(objective="simclr", positives=2)),
    "SimCLR alone": exactly(method=MethodConfig(objective="simclr", positives=0)),
    "BYOL": exactly(method=MethodConfig(objective="byol", positives=2)),
    "recomputed activations": exactly(micro_batch=16),
    "selective kernels": exactly(net=SK, optim=SLOW),
    "LARS": exactly(optim=OptimConfig(name="lars", base_lr=0.3)),
    "AdamW": exactly(optim=OptimConfig(name="adamw", base_lr=0.01)),
    "single precision": singly(optim=OptimConfig(name="lars", base_lr=0.3)),
}
UNEVEN = "a batch that ranks do not divide"
# the second step is the first that momentum, the target and what was pushed take part in; with selective
# kernels, whose fifty layers take long to agree, nothing is new in it
STEPS = dict.fromkeys(CASES, 2) | {"SemPPL": 3, "selective kernels": 1}


def all_trained(ranks, device, npz, names):
    return {name: trained(ranks, device, npz, *CASES[name], steps=STEPS[name]) for name in names}


@pytest.fixture(scope="module")
def stripes_file(tmp_path_factory):
    return str(stripes_npz(tmp_path_factory.mktemp("data") / "stripes.npz"))


@pytest.fixture(scope="module")
def one(stripes_file):
    torch.set_num_threads(1)
    return all_trained(ALONE, CPU, stripes_file, CASES)


@pytest.fixture(scope="module")
def two(stripes_file):
    return in_ranks(2, all_trained, stripes_file, list(CASES))


@pytest.fixture(scope="module")
def three(stripes_file):
    return in_ranks(3, all_trained, stripes_file, [UNEVEN])


@pytest.fixture(scope="module")
def four(stripes_file):
    return in_ranks(4, all_trained, stripes_file, [UNEVEN, "single precision"])


@pytest.mark.parametrize("name", [name for name, (_, exact) in CASES.items() if exact])
def test_two_ranks_are_one(one, two, name):
    for other in two:
        assert not differences(one[name], other[name], 1e-6)


@pytest.mark.parametrize(("world", "name"), [("three", UNEVEN), ("four", UNEVEN)])
def test_more_ranks_are_one_even_if_some_have_no_label(one, world, name, request):
    more = request.getfixturevalue(world)
    shares = [other[name]["labelled"] for other in more]
    assert 0 in [count for share in shares for count in share]
    assert [sum(counts) for counts in zip(*shares, strict=True)] == one[name]["labelled"]
    for other in more:
        assert not differences(one[name], other[name], 1e-6)


def test_in_single_precision_they_differ_by_rounding_alone(one, two, four):
    """Losses, votes, queue and weights by 10⁻⁵ of the largest number, or of 1 where all are smaller;
    gradients, in which rounding adds up on the way, by 10⁻⁴.
    """
    name = "single precision"
    for other in (*two, *four):
        assert not differences(one[name], other[name], 1e-4, least=1.0)
        apart = differences(one[name], other[name], 1e-5, least=1.0)
        assert all(" online " in key for key in apart)


@pytest.mark.parametrize("name", CASES)
def test_all_ranks_hold_the_same_to_the_last_bit(two, name):
    first, second = (dict(other[name], labelled=None) for other in two)
    assert all(torch.equal(first[key], second[key]) for key in first if key != "labelled")
