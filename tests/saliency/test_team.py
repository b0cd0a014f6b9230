import os
import signal
from operator import neg

import pytest

from semppl.core.errors import RunError
from semppl.saliency.team import team
from semppl.train.interrupt import Interrupted


def nothing():
    pass


def crew(workers):
    return team(workers, begin=nothing, goes_on="the same command goes on")


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_the_order_of_the_tasks(workers):
    with crew(workers) as some:
        assert list(some.over(neg, range(20))) == [-task for task in range(20)]
        # the results of one stage are the tasks of the next
        assert list(some.over(neg, some.over(neg, range(9)))) == list(range(9))
        assert list(some.over(neg, [])) == []
        some.check()


@pytest.mark.parametrize("workers", [0, 2])
def test_few_tasks_are_under_way(workers):
    asked = []
    with crew(workers) as some:
        results = some.over(neg, (asked.append(task) or task for task in range(50)))
        assert next(results) == 0
        assert len(asked) <= 1 + 2 * workers


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_signal_what_is_in_hand_is_finished_and_the_rest_is_left(workers):
    with crew(workers) as some:
        results = []
        for result in some.over(neg, range(1000)):
            results.append(result)
            if len(results) == 3:
                os.kill(os.getpid(), signal.SIGINT)
        assert 3 <= len(results) < 50
        assert results == [-task for task in range(len(results))]
        with pytest.raises(Interrupted, match="by SIGINT, what is done is kept: the same command") as caught:
            some.check()
    assert caught.value.signum == signal.SIGINT


def test_a_process_that_dies_is_told_in_one_line():
    with crew(2) as some, pytest.raises(RunError, match=r"that made masks died.*the same command goes on"):
        list(some.over(os._exit, [1, 1]))
