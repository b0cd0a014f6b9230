import os
import signal
import threading

import pytest

from semppl.train.interrupt import Stopper


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_the_first_signal_is_noted_and_handlers_come_back(signum):
    before = signal.getsignal(signum)
    with Stopper() as stop:
        os.kill(os.getpid(), signum)
        assert stop.signum == signum
    assert signal.getsignal(signum) is before


def test_a_second_ctrl_c_stops_at_once():
    with Stopper() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert stop.signum == signal.SIGINT


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_launcher_that_sends_a_signal_after_the_terminal_did_changes_nothing(first):
    with Stopper() as stop:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signum == first


def test_outside_the_main_thread_nothing_is_changed():
    seen = []

    def work():
        with Stopper() as stop:
            seen.append(stop.signum)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None]
