import errno
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch
from tests.core.test_rundir import files_of_at_most
from tests.train.test_state import directory, same

import semppl.train.writer as module
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.train.checkpoint import keep_checkpoint, load_checkpoint, newest_checkpoint
from semppl.train.writer import Departing, Writer

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture
def run(tmp_path):
    return directory(tmp_path)


def state(step, size=6, device="cpu"):
    weights = torch.arange(size, dtype=torch.float32, device=device) + step
    return {"step": step, "online": {"w": weights}, "queue": [(weights + 1, None)], "lr": 0.5}


def error(number):
    return OSError(number, os.strerror(number))


def failing(monkeypatch, problem, times=None):
    """The first so many checkpoints fail, or all of them."""
    tried = itertools.count()

    def write(*arguments, **options):
        if times is None or next(tried) < times:
            raise problem
        return keep_checkpoint(*arguments, **options)

    monkeypatch.setattr(module, "keep_checkpoint", write)


def settle(writer):
    """Until all is on the disk."""
    deadline = time.monotonic() + 60
    while writer._jobs:
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Gate:
    """Holds the thread up at each checkpoint until it is opened."""

    def __init__(self, monkeypatch):
        self.reached, self.open = threading.Event(), threading.Event()
        monkeypatch.setattr(module, "keep_checkpoint", self._write)

    def _write(self, *arguments, **options):
        self.reached.set()
        assert self.open.wait(60)
        return keep_checkpoint(*arguments, **options)


@pytest.mark.parametrize("device", DEVICES)
def test_all_is_on_the_disk_at_the_end(run, device):
    said = []
    with Writer(run, keep=2, say=said.append) as writer:
        for step in (1, 2, 30):
            writer.row({"step": step, "loss": step / 2})
            writer.checkpoint(state(step, device=device), {"split": "s"})
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert names == ["last", "step-00000002.ckpt", "step-00000030.ckpt"]
    content = load_checkpoint(newest_checkpoint(run))
    assert content["split"] == "s"
    assert same(content["state"], state(30))
    assert [row["step"] for row in run.read_metrics()] == [1, 2, 30]
    assert not said
    assert not writer.busy


def test_callers_go_on_while_the_thread_writes_in_order(run, monkeypatch):
    gate = Gate(monkeypatch)
    with Writer(run, keep=2, say=print) as writer:
        writer.row({"step": 1})
        settle(writer)
        assert not writer.busy
        writer.checkpoint(state(1), {})
        assert gate.reached.wait(60), "this line is reached, so the caller was not held up"
        writer.row({"step": 2})
        assert writer.busy
        assert [row["step"] for row in run.read_metrics()] == [1], "not before the checkpoint"
        assert newest_checkpoint(run) is None
        gate.open.set()
        settle(writer)
        assert not writer.busy
        assert [row["step"] for row in run.read_metrics()] == [1, 2]
        assert newest_checkpoint(run).name == "step-00000001.ckpt"


def test_a_row_is_written_as_it_was_when_it_was_given(run, monkeypatch):
    gate = Gate(monkeypatch)
    with Writer(run, keep=1, say=print) as writer:
        writer.checkpoint(state(1), {})
        row = {"step": 1}
        writer.row(row)
        row["step"] = 2
        gate.open.set()
    assert run.read_metrics() == [{"step": 1}]


def test_a_state_is_let_go_when_it_is_written(run):
    with Writer(run, keep=1, say=print) as writer:
        given = state(1)
        weights = weakref.ref(given["online"]["w"])
        writer.checkpoint(given, {})
        del given
        settle(writer)
        gc.collect()
        assert weights() is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_once_and_waited_for(run, monkeypatch, number):
    said, slept = [], []
    failing(monkeypatch, error(number), times=3)
    with Writer(run, keep=2, say=said.append, retry=7, sleep=slept.append) as writer:
        writer.checkpoint(state(1, size=3_000_000), {})
        writer.row({"step": 1})
    path = run.checkpoints / "step-00000001.ckpt"
    stuck, going_on = said
    assert stuck.startswith(f"cannot write {path} ({os.strerror(number)}): make room for 25 MB in ")
    assert f"{run.checkpoints}, which has " in stuck
    assert stuck.endswith(" MB; tried again every 7 s, nothing is lost")
    assert going_on == f"{path} is written: going on"
    assert slept == [7, 7, 7]
    assert same(load_checkpoint(path)["state"], state(1, size=3_000_000))
    assert run.read_metrics() == [{"step": 1}]


def test_while_it_waits_it_says_why_and_the_caller_may_do_something_about_it(run, monkeypatch):
    failing(monkeypatch, error(errno.EROFS))
    tried = threading.Event()
    with Writer(run, keep=2, say=print, sleep=lambda _: tried.set()) as writer:
        writer.checkpoint(state(1), {})
        assert tried.wait(60)
        assert writer.stuck == (
            f"cannot write {run.checkpoints / 'step-00000001.ckpt'} (Read-only file system)"
        )
        assert writer.busy
        monkeypatch.setattr(module, "keep_checkpoint", keep_checkpoint)
        settle(writer)
        assert writer.stuck is None


def test_a_disk_that_is_really_full_for_a_while_costs_neither_a_line_nor_a_checkpoint(run):
    """Files may not grow beyond a limit; the writer's first pause ends with more of it."""
    said, seen = [], []
    run.append_metrics({"step": 0})
    limit = files_of_at_most(run.metrics.stat().st_size + 5)

    def more(_):
        nonlocal limit
        limit.__exit__(None, None, None)
        seen.append((run.read_metrics(), sorted(path.name for path in run.checkpoints.iterdir())))
        limit = files_of_at_most(10_000 if len(seen) == 1 else 1_000_000)
        limit.__enter__()

    limit.__enter__()
    try:
        with Writer(run, keep=2, say=said.append, sleep=more) as writer:
            writer.row({"step": 1, "loss": 0.5})
            writer.checkpoint(state(1, size=10_000), {})
    finally:
        limit.__exit__(None, None, None)
    assert seen == [([{"step": 0}], []), ([{"step": 0}, {"step": 1, "loss": 0.5}], [])], "nothing by halves"
    assert [line.split(" (")[0] for line in said] == [
        f"cannot write {run.metrics}",
        f"{run.metrics} is written: going on",
        f"cannot write {run.checkpoints / 'step-00000001.ckpt'}",
        f"{run.checkpoints / 'step-00000001.ckpt'} is written: going on",
    ]
    assert same(load_checkpoint(newest_checkpoint(run))["state"], state(1, size=10_000))
    assert len(run.read_metrics()) == 2


def test_giving_up_drops_what_cannot_be_written_names_it_and_writes_the_rest(run, monkeypatch):
    failing(monkeypatch, error(errno.ENOSPC))
    heard = threading.Event()
    writer = Writer(run, keep=2, say=lambda _: heard.set(), retry=3600)
    writer.row({"step": 1})
    writer.checkpoint(state(1), {})
    writer.row({"step": 2})
    assert heard.wait(60)
    assert writer.close(give_up=True) == [run.checkpoints / "step-00000001.ckpt"]
    assert writer.close() == [run.checkpoints / "step-00000001.ckpt"]
    assert writer.stuck is None
    assert [row["step"] for row in run.read_metrics()] == [1, 2]


def test_an_exception_around_it_leaves_at_once_and_says_what_is_lost(run, monkeypatch):
    failing(monkeypatch, error(errno.ENOSPC))
    said, heard = [], threading.Event()

    def say(line):
        said.append(line)
        heard.set()

    def interrupted():
        with Writer(run, keep=2, say=say, retry=3600) as writer:
            writer.checkpoint(state(1), {})
            assert heard.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert said[-1] == f"{run.checkpoints / 'step-00000001.ckpt'} could not be written"


def test_any_other_error_of_the_thread_is_the_callers(run):
    writer = Writer(run, keep=2, say=print)
    writer.row({"step": object()})
    settle(writer)
    for call in (lambda: writer.row({"step": 1}), lambda: writer.checkpoint(state(1), {})):
        with pytest.raises(TypeError, match="not JSON serializable"):
            call()
    assert not writer.busy
    assert writer.close() == [], "it was heard of already"


def test_an_error_that_nobody_heard_of_is_raised_at_the_end(run, monkeypatch):
    failing(monkeypatch, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"), Writer(run, keep=2, say=print) as writer:
        writer.checkpoint(state(1), {})


def test_after_the_end_nothing_is_taken(run):
    writer = Writer(run, keep=2, say=print)
    assert writer.close() == []
    assert not writer._thread.is_alive()
    with pytest.raises(ValueError, match="closed"):
        writer.row({"step": 1})


PROGRAM = """
import sys, torch
from pathlib import Path
import semppl.train.writer as module
from semppl.core.rundir import RunDirectory
def full(*_, **__):
    raise OSError(28, "No space left on device")
def say(line):
    print(line, flush=True)
path, disk = sys.argv[1:]
if disk == "full":
    module.keep_checkpoint = full
writer = module.Writer(RunDirectory(Path(path)), keep=1, say=say, retry=3600)
writer.checkpoint({"step": 1, "w": torch.zeros(1000)}, {})
if disk == "full":
    writer.close()
raise KeyboardInterrupt
"""


@pytest.mark.parametrize("disk", ["fine", "full"])
def test_a_process_that_is_interrupted_or_forgets_to_close_ends_as_it_should(run, disk):
    command = [sys.executable, "-c", PROGRAM, str(run.path), disk]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        if disk == "full":  # it waits for room, and in vain
            assert "No space left on device" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
        try:
            _, words = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert words.splitlines()[-1] == "KeyboardInterrupt"
    assert (newest_checkpoint(run) is not None) is (disk == "fine")


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_travels_to_the_cpu_once(device):
    given = state(1, device=device)
    departing = Departing(given)
    assert departing.size == 2 * 6 * 4
    arrived = departing.on_cpu()
    assert same(arrived, state(1))
    assert departing.on_cpu() is arrived
    assert (arrived is given) is (device == "cpu"), "nothing is copied that is there already"


def test_what_is_on_another_device_is_fetched_and_the_rest_is_left(monkeypatch):
    """Shown with a device that needs no hardware and whose tensors are told apart by it."""
    meta = torch.device("meta")
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: torch.zeros(tensor.shape, device=device))
    given = {"a": torch.ones(2), "b": [torch.ones(3, device=meta), (torch.ones(4, device=meta), "word")]}
    arrived = Departing(given).on_cpu()
    assert arrived["a"] is given["a"]
    assert isinstance(arrived["b"][1], tuple)
    assert same(arrived["b"], [torch.zeros(3), (torch.zeros(4), "word")])
    assert given["b"][0].device == meta, "the caller's own stays as it is"


def test_a_folder_that_was_removed_or_taken_by_another_run_is_left_alone(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with run.locked():
        writer = Writer(run, keep=2, say=print, retry=0.01)
        writer.row({"step": 1})
        settle(writer)
        shutil.rmtree(run.path)
        run.path.mkdir()
        (run.path / ".lock").write_text("of another")
        writer.row({"step": 2})
        with pytest.raises(RunError, match="was removed, or another run has taken its place"):
            writer.close()
    assert [path.name for path in run.path.iterdir()] == [".lock"]
    assert (run.path / ".lock").read_text() == "of another"
