import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.ablate.stubs import live, make_cell

from semppl.ablate.pool import noted, run_cells

ROOT = Path(__file__).parents[2]


def go(cells, jobs, told=lambda running: None):
    ends = {}
    signum = run_cells(
        cells, live, jobs=jobs, ended=lambda end: ends.update({end.cell.name: end}), look=int, told=told
    )
    return signum, ends


def appears(path):
    for _ in range(1500):
        if path.exists():
            return True
        time.sleep(0.02)
    return False


def test_each_cell_has_a_process_and_a_group_of_its_own_and_a_failure_stops_no_other(tmp_path):
    names = ("fine-1", "wrong-1", "killed-1", "broken-1", "fine-2")
    signum, ends = go([make_cell(tmp_path, name) for name in names], jobs=2)
    assert signum is None
    assert {name: end.error for name, end in ends.items()} == {
        "fine-1": None,
        "wrong-1": "this is wrong",
        "killed-1": "ended by SIGKILL",
        "broken-1": "ZeroDivisionError: by zero",
        "fine-2": None,
    }
    assert not any(end.stopped for end in ends.values())
    slots, groups = set(), {os.getpgrp()}
    for name in ("fine-1", "fine-2"):
        slot, jobs, group = (int(word) for word in (tmp_path / name / "done").read_text().split())
        assert jobs == 2
        slots.add(slot)
        groups.add(group)
    assert slots <= {0, 1}
    assert len(groups) == 3


def test_a_second_ctrl_c_loses_nothing(tmp_path):
    def press():
        assert appears(tmp_path / "long-1" / "started")
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    thread, asked = threading.Thread(target=press), []
    before = signal.getsignal(signal.SIGINT)
    thread.start()
    signum, ends = go([make_cell(tmp_path, name) for name in ("long-1", "fine-1")], 1, asked.append)
    thread.join()
    assert signum == signal.SIGINT
    assert (tmp_path / "long-1" / "checkpoint").exists()
    assert ends["long-1"].stopped
    assert ends["long-1"].error is None
    assert list(ends) == ["long-1"]
    assert asked == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_is_deaf_to_ctrl_c_while_it_starts_and_stops_when_its_parent_is_gone(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.ablate.test_pool import go, make_cell;"
        "go([make_cell(Path(sys.argv[1]), 'long-1')], 1)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    assert appears(tmp_path / "long-1" / "started")
    parent.kill()
    parent.wait()
    assert (tmp_path / "long-1" / "started").read_text() == "True"
    assert appears(tmp_path / "long-1" / "checkpoint")


def test_signals_are_noted_in_their_order_and_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with noted() as heard:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert heard == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_nothing_is_changed():
    seen = []

    def work():
        with noted() as heard:
            seen.append(heard)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [[]]
