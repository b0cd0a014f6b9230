import time

import pytest
from torch.distributed import HashStore

from semppl.train.heartbeat import Heartbeat


@pytest.fixture
def beats():
    store = HashStore()
    three = [Heartbeat(store, rank, 3, every=0.05) for rank in range(3)]
    time.sleep(0.2)
    yield three
    for each in three:
        each.close()


def test_nobody_is_silent_where_all_are_as_far(beats):
    for each in beats:
        each.round = 5
    time.sleep(0.2)
    assert beats[0].silent() == []


def test_who_has_not_come_to_the_meeting_is_silent(beats):
    beats[0].round = beats[2].round = 5
    beats[1].round = 4
    time.sleep(0.2)
    assert beats[0].silent() == [1]
    assert beats[2].silent() == [1]


def test_who_has_stopped_is_silent_however_far_it_came(beats):
    for each in beats:
        each.round = 5
    time.sleep(0.2)
    beats[2].close()
    assert beats[0].silent() == [2]


def test_who_never_began_is_silent():
    store = HashStore()
    alone = Heartbeat(store, 0, 2, every=0.05)
    try:
        alone.round = 1
        assert alone.silent() == [1]
    finally:
        alone.close()
