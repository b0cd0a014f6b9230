import pytest
from tests.conftest import tiny_config

from semppl.config import NetConfig
from semppl.doctor.projection import Links, needed_gbps, project
from semppl.doctor.traffic import NetworkFacts, traffic
from semppl.resolve import resolved

NETWORK = NetworkFacts(
    parameters=10**7, target_parameters=10**7, online_norms=(100,), target_norms=(100,), stored_bytes=0
)
# a byte takes a nanosecond inside a machine and ten between machines
LINKS = Links(intra_gbps=8.0, inter_gbps=0.8, intra_us=100.0, inter_us=1000.0)


def config(**changes):
    return resolved(tiny_config("", **changes), image_size=8, num_images=48, num_classes=3)


def projected(devices, compute=0.5, **changes):
    return project(config(**changes), NETWORK, devices=devices, compute=compute, num_images=48, links=LINKS)


def test_one_device_only_computes():
    alone = projected(1)
    assert (alone.gradients, alone.waiting, alone.images) == (0, 0, 16)
    assert alone.step == (0.5, 0.5)
    # 2 epochs of 48 images in batches of 16
    assert alone.steps == 6
    assert alone.hours[0] == pytest.approx(6 * 0.5 / 3600)


def test_inside_a_machine_bytes_take_their_time_and_messages_a_little_more():
    told, seen = traffic(config(), NETWORK, 8), projected(8)
    # 2 messages of at most 25 MiB carry 40 MB
    assert seen.gradients == pytest.approx(1e-9 * told.gradients + 2 * 100e-6)
    rest = told.total - told.gradients
    assert seen.waiting == pytest.approx(1e-9 * rest + (told.norm_calls + told.calls) * 100e-6)
    assert seen.step == pytest.approx((0.5 + seen.waiting, 0.5 + seen.waiting + seen.gradients))
    assert seen.hours[1] == pytest.approx(6 * seen.step[1] / 3600)


def test_between_machines_all_that_a_rank_sends_passes_the_slower_link():
    told, seen = traffic(config(), NETWORK, 16), projected(16)
    assert seen.gradients == pytest.approx(1e-8 * told.gradients + 2 * 1e-3)
    rest = told.total - told.gradients
    assert seen.waiting == pytest.approx(1e-8 * rest + (told.norm_calls + told.calls) * 1e-3)


def test_statistics_of_groups_stay_inside_a_machine():
    changes = {"net": NetConfig(head_outputs=8, norm_ranks=8)}
    told, seen = traffic(config(**changes), NETWORK, 16), projected(16, **changes)
    others = told.total - told.gradients - told.statistics
    inside = 1e-9 * told.statistics + told.norm_calls * 100e-6
    assert seen.waiting == pytest.approx(inside + 1e-8 * others + told.calls * 1e-3)


def test_machines_of_one_device_have_no_inside():
    links = Links(intra_gbps=1e9, inter_gbps=8.0, intra_us=0, inter_us=0, per_machine=1)
    assert links.seconds(1e9, 5, 2) == pytest.approx(1.0)
    assert links.seconds(1e9, 5, 1) == 0


def test_a_network_faster_than_a_machine_is_held_up_inside():
    assert Links(intra_gbps=8.0, inter_gbps=80.0, inter_us=0).seconds(1e9, 1, 64) == pytest.approx(1.0)


def test_the_batch_may_not_divide():
    assert projected(3).images == 6


def test_the_bandwidth_that_takes_a_twentieth():
    # 1 GB in 0.05 s
    assert needed_gbps(1e9, 1.0) == pytest.approx(160.0)
    assert needed_gbps(1e9, 2.0, share=0.5) == pytest.approx(8.0)
