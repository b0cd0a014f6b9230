import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.ablate.stubs import live, make_cell

from semppl.ablate.pool import noted, run_cells
from semppl.core.errors import UserError

ROOT = Path(__file__).parents[2]


def go(cells, jobs, told=lambda running: None, begin=lambda cell: None):
    ends = {}
    signum = run_cells(
        cells,
        live,
        jobs=jobs,
        begin=begin,
        ended=lambda end: ends.update({end.cell.name: end}),
        look=int,
        told=told,
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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_the_process_of_a_cell_keeps_the_memory_that_it_frees(tmp_path):
    go([make_cell(tmp_path, "heavy-1")], jobs=1)
    mapped, kept_mb = map(int, (tmp_path / "heavy-1" / "blocks").read_text().split())
    assert mapped == 0
    assert kept_mb > 80  # of 96: what was free before may serve, too


def test_a_place_is_made_ready_when_its_turn_comes_and_one_that_cannot_be_is_a_failure(tmp_path):
    seen = []

    def begin(cell):
        seen.append((cell.name, (tmp_path / "fine-1" / "done").exists()))
        if cell.name == "taken-1":
            raise UserError("in use")

    cells = [make_cell(tmp_path, name) for name in ("fine-1", "taken-1", "fine-2")]
    _, ends = go(cells, 1, begin=begin)
    assert seen == [("fine-1", False), ("taken-1", True), ("fine-2", True)]
    assert {name: end.error for name, end in ends.items()} == {
        "fine-1": None,
        "taken-1": "in use",
        "fine-2": None,
    }
    assert not (tmp_path / "taken-1").exists()


def test_a_ctrl_c_that_came_while_a_process_started_is_the_parents():
    code = (
        "import os, signal; from semppl.ablate.pool import _leave_group;"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); os.kill(os.getpid(), signal.SIGINT);"
        "_leave_group(); assert not signal.pthread_sigmask(signal.SIG_BLOCK, []); print('lives')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("lives\n", "", 0)


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
