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


class Gone:
    """A store whose host has left, or hangs."""

    def __init__(self, seconds):
        self._seconds = seconds

    def set(self, key, value):
        raise RuntimeError("no answer")

    def check(self, keys):
        time.sleep(self._seconds)
        raise RuntimeError("no answer")


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_where_the_store_does_not_answer_its_host_is_silent(seconds):
    last = Heartbeat(Gone(seconds), 2, 3, every=0.05)
    start = time.monotonic()
    assert last.silent() == [0]
    assert time.monotonic() - start < 10
    last.close()


def test_a_rank_does_not_take_itself_for_stopped(beats):
    for each in beats:
        each.round = 5
    time.sleep(0.2)
    beats[0].close()
    assert beats[0].silent() == []
