from dataclasses import asdict, replace

import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import MethodConfig, NetConfig
from semppl.doctor.traffic import (
    NetworkFacts,
    count_network,
    holdings,
    messages_of_gradients,
    sharing_ranks,
    traffic,
)
from semppl.presets import paper
from semppl.resolve import resolved
from semppl.train.build import build_state

# 10 parameters, norms of 3 and 2 channels in the online network, of 3 in the target
SMALL = NetworkFacts(
    parameters=10, target_parameters=6, online_norms=(3, 2), target_norms=(3,), stored_bytes=100
)


def small(**changes):
    """Batches of 16; 2 large views, 1 small; 8 dims; 2 × 2 ballots."""
    return resolved(tiny_config("", **changes), image_size=8, num_images=48, num_classes=3)


@pytest.fixture(scope="module")
def resnet50():
    config = resolved(paper(), image_size=256, num_images=1_281_167, num_classes=1000)
    return config, count_network(config)


def test_a_small_network_by_hand():
    told = traffic(small(), SMALL, 4)
    assert told.gradients == 2 * 3 / 4 * 4 * 10
    # forward: 3 others hear (2·3+1) + (2·2+1) floats of 3 online views and 2·3+1 of 2 target views;
    # backward: 2·(3+2) floats of 3 views are added up
    assert told.statistics == 3 * 4 * (3 * (7 + 5) + 2 * 7) + 2 * 3 / 4 * 4 * 3 * 10
    # 3 predictions and 2 projections of 16 images
    assert told.embeddings == 3 / 4 * 4 * (3 + 2) * 16 * 8
    # label, count and 4 ballots
    assert told.votes == 3 / 4 * 8 * (2 + 4) * 16
    assert told.control == 2 * 3 / 4 * 8
    assert told.total == sum((told.gradients, told.statistics, told.embeddings, told.votes, told.control))
    # two layers, three views, there and back; one layer, two views
    assert told.norm_calls == 2 * 3 * 2 + 2
    # predictions, projections, votes, control
    assert told.calls == 4


def test_one_rank_tells_nobody_anything():
    assert set(asdict(traffic(small(), SMALL, 1)).values()) == {0}


def test_ranks_with_a_row_less_fill_up():
    # 16 images on 3 ranks: 6 rows each
    assert traffic(small(), SMALL, 3).embeddings == 2 * 6 * 4 * 5 * 8


def test_groups_share_statistics_among_themselves():
    pairs = small(net=NetConfig(head_outputs=8, norm_ranks=2))
    assert sharing_ranks(pairs, 8) == 2
    assert traffic(pairs, SMALL, 8).statistics == traffic(small(), SMALL, 2).statistics
    nobody = traffic(small(net=NetConfig(head_outputs=8, norm_ranks=1)), SMALL, 8)
    assert (nobody.statistics, nobody.norm_calls) == (0, 0)
    assert nobody.embeddings == traffic(small(), SMALL, 8).embeddings


def test_parts_tell_their_statistics_one_by_one_and_the_online_ones_twice():
    # 8 rows on each of two ranks, in parts of 4
    told = traffic(small(micro_batch=4), SMALL, 2)
    assert told.statistics == 4 * (2 * 2 * 3 * 12 + 2 * 2 * 7) + 4 * 2 * 3 * 10
    assert told.norm_calls == 2 * (3 * 3 * 2 + 2)


def test_small_views_may_go_through_the_target_too():
    method = MethodConfig(positives=2, queue_capacity=20, small_partner="run_target")
    assert traffic(small(method=method), SMALL, 2).embeddings == 1 / 2 * 4 * (3 + 3) * 16 * 8


def test_without_a_queue_nobody_votes_and_nothing_is_drawn():
    config = small(method=MethodConfig(positives=0))
    assert traffic(config, SMALL, 2).votes == 0
    assert traffic(config, SMALL, 2).calls == 3
    held = holdings(config, SMALL)
    assert held.queue == held.positives == 0
    assert held.checkpoint == 100 + 2 * 4 * 10


def test_simclr_has_no_target():
    config = small(method=MethodConfig(objective="simclr", positives=2, queue_capacity=20))
    network = count_network(config)
    assert network.target_norms == ()
    assert network.target_parameters == 0
    told = traffic(config, network, 2)
    assert told.embeddings == 1 / 2 * 4 * 3 * 16 * 8
    assert told.calls == 3


def test_what_a_rank_holds_by_hand():
    held = holdings(small(), SMALL)
    assert held.weights == 4 * (10 + 6)
    assert held.gradients == 4 * 10
    assert held.optimizer == 2 * 4 * 10
    assert held.queue == 2 * 20 * 8 * 4
    assert held.gathered == 4 * 5 * 16 * 8
    assert held.positives == 4 * 3 * 2 * 2 * 16 * 8
    assert held.checkpoint == 100 + 80 + held.queue + 8 * 21


def test_the_papers_networks(resnet50):
    _, network = resnet50
    encoder, projector, predictor = 23_508_032, 9_449_472, 2_109_440
    assert network.parameters == encoder + projector + predictor == 35_066_944
    assert network.target_parameters == encoder + projector
    assert len(network.online_norms) == 53 + 2
    assert sum(network.online_norms) == 26_560 + 2 * 4096
    assert sum(network.target_norms) == 26_560 + 4096
    assert messages_of_gradients(network) == 6


@pytest.mark.parametrize("world", [8, 64])
def test_the_papers_traffic(resnet50, world):
    told = traffic(*resnet50, world)
    others = world - 1
    assert told.gradients == pytest.approx(2 * others / world * 140_267_776)
    forward = 6 * (2 * 34_752 + 55) + 4 * (2 * 30_656 + 54)
    assert told.statistics == pytest.approx(4 * (others * forward + 2 * others / world * 6 * 2 * 34_752))
    assert told.embeddings == pytest.approx(others / world * (6 + 4) * 4096 * 256 * 4)
    assert told.votes == pytest.approx(others / world * 18 * 4096 * 8)
    assert told.norm_calls == 2 * 6 * 55 + 4 * 54 == 876


def test_the_papers_queue_and_optimiser(resnet50):
    held = holdings(*resnet50)
    assert held.queue == 4 * 81_920 * 256 * 4 == 335_544_320
    assert held.optimizer == 140_267_776


def test_counting_takes_no_memory_and_equals_the_real_networks():
    config = small()
    state = build_state(config, 3, torch.device("cpu"))
    network = count_network(config)
    trained = [p for group in state.optimizer.param_groups for p in group["params"]]
    assert network.parameters == sum(p.numel() for p in trained)
    assert network.target_parameters == sum(p.numel() for p in state.target.module.parameters())


def test_a_network_that_cannot_be_imagined_is_built(monkeypatch):
    import semppl.doctor.traffic as module

    config, asked = small(), []
    real = module.build_networks

    def build(config, device):
        asked.append(device.type)
        if device.type == "meta":
            raise RuntimeError("item() of a meta tensor")
        return real(config, device)

    expected = count_network(config)
    monkeypatch.setattr(module, "build_networks", build)
    assert count_network(config) == expected
    assert asked == ["meta", "cpu"]


@pytest.mark.parametrize("name", ["adamw", "lars"])
def test_a_checkpoint_is_as_large_as_counted(name, tmp_path):
    config = small()
    net = replace(config.net, head_hidden=512, head_outputs=64)
    config = replace(config, net=net, optim=replace(config.optim, name=name))
    state = build_state(config, 3, torch.device("cpu"))
    for group in state.optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    state.optimizer.step()
    torch.save(state.state_dict(), tmp_path / "checkpoint")
    written = (tmp_path / "checkpoint").stat().st_size
    counted = holdings(config, count_network(config)).checkpoint
    # besides, names and frames
    assert counted < written < counted + 120_000
