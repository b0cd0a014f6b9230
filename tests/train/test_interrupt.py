import os
import signal
import threading

import pytest

from semppl.train.interrupt import Stopper


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_stops_at_once(signum):
    before = signal.getsignal(signum)
    with Stopper() as stop:
        os.kill(os.getpid(), signum)
        assert stop.signum == signum
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signum)
    assert signal.getsignal(signum) is before


def test_outside_the_main_thread_nothing_is_changed():
    seen = []

    def work():
        with Stopper() as stop:
            seen.append(stop.signum)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None]
