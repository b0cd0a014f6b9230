import signal
import subprocess
import sys
import threading
import time

import pytest

from semppl.core.processes import shielded

CHILD = """
import multiprocessing, os, signal, time
from semppl.core.processes import serve_parent

def child(pipe):
    serve_parent()
    os.kill(os.getpid(), signal.SIGINT)  # is not heard
    pipe.send(os.getpid())
    time.sleep(600)

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=child, args=(theirs,), daemon=True).start()
    print(ours.recv(), flush=True)
    time.sleep(600)
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_is_deaf_to_ctrl_c_and_ends_when_its_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(CHILD)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(child)


def test_ctrl_c_waits_until_the_shield_is_gone():
    done = []

    def under_the_shield():
        with shielded():
            # to this thread: another one, such as those of the tests' own machinery, has no shield
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            done.append("what the shield is for")

    with pytest.raises(KeyboardInterrupt):
        under_the_shield()
    assert done
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
