import signal
from dataclasses import replace

import pytest
import torch
from tests.train.test_state import training

import semppl.train.loop as loop
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.train.interrupt import Interrupted
from semppl.train.loop import Cadence, Loop
from semppl.train.monitor import Tally
from semppl.train.recovery import Recovery


class Disk:
    """A writer whose disk is slow or full."""

    def __init__(self, slow=0, full=False):
        self.rows, self.states, self.closed, self.left = [], [], [], slow
        self._slow, self._full = slow, full

    @property
    def busy(self):
        self.left -= 1
        return self._full if self.states and self._full else self.left > 0 and bool(self.states)

    @property
    def stuck(self):
        return "no room on the disk" if self._full else None

    def row(self, row):
        self.rows.append(row)

    def checkpoint(self, state, facts):
        assert not (self.states and self.busy)
        self.states.append(state["step"])
        self.left = self._slow

    def close(self, *, give_up=False):
        self.closed.append(give_up)
        return []


def looped(run, tmp_path, disk, show=None, **cadence):
    tally = Tally(None, 4, run.device)
    return Loop(
        training=run,
        recovery=Recovery(run, RunDirectory(tmp_path), [str(i) for i in range(48)], tally, print),
        tally=tally,
        probe=lambda encoder: {"probed": 1.0},
        cadence=Cadence(**{"log": 2, "probe": 4, "checkpoint": 3} | cadence),
        writer=disk,
        facts={},
        advance=lambda step: None,
        report=lambda row: None,
        hint="go on",
        show=show,
    )


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(loop, "_LOOK", 0.0)


def test_lines_probes_and_checkpoints_come_when_they_are_due(npz, tmp_path):
    disk = Disk()
    looped(training(npz), tmp_path, disk).run_()
    assert [row["step"] for row in disk.rows] == [2, 4, 6]
    assert [row["step"] for row in disk.rows if "probed" in row] == [4, 6]
    assert disk.states == [3, 6]
    assert disk.closed == [False]
    assert all(row["images_per_second"] > 0 for row in disk.rows)


@pytest.mark.parametrize(("every", "expected"), [(0, []), (3, [4, 6]), (4, [4, 6]), (100, [6])])
def test_pictures_come_with_lines_of_metrics_when_they_are_due(npz, tmp_path, every, expected):
    run, shown = training(npz), []
    looped(run, tmp_path, Disk(), lambda: shown.append(run.state.step), sheet=every, log=2).run_()
    assert shown == expected


def test_a_checkpoint_waits_for_the_one_before_it(npz, tmp_path):
    disk = Disk(slow=5)
    looped(training(npz), tmp_path, disk, checkpoint=1).run_()
    assert disk.states == [1, 2, 3, 4, 5, 6]


def test_hours_before_a_full_disk_are_not_those_of_steps(npz, tmp_path, monkeypatch):
    passed = [0.0]

    class Clock:
        @staticmethod
        def perf_counter():
            passed[0] += 1.0
            return passed[0]

        @staticmethod
        def sleep(_):
            passed[0] += 3600.0

    monkeypatch.setattr(loop, "time", Clock)
    disk = Disk(slow=5)
    looped(training(npz), tmp_path, disk, checkpoint=1, log=2).run_()
    assert passed[0] > 3600
    # 16 images a step, and a few looks at the clock for each
    assert all(row["images_per_second"] > 16 / 10 for row in disk.rows)


def signalled(run, at):
    def step(batch):
        if run.state.step == at:
            signal.raise_signal(signal.SIGTERM)
        return run.step(batch)

    return replace(run, step=step)


def test_without_probes_and_checkpoints_there_is_the_last_checkpoint_alone(npz, tmp_path):
    disk = Disk()
    looped(training(npz), tmp_path, disk, probe=0, checkpoint=0).run_()
    assert [row["step"] for row in disk.rows if "probed" in row] == []
    assert disk.states == [6]


def test_a_signal_leaves_a_checkpoint_of_the_step_in_hand(npz, tmp_path):
    disk = Disk()
    with pytest.raises(
        Interrupted, match=r"stopped at step 5 of 6; its checkpoint is written: go on"
    ) as told:
        looped(signalled(training(npz), 4), tmp_path, disk).run_()
    assert told.value.signum == signal.SIGTERM
    assert disk.states == [3, 5]
    assert disk.closed == [False]


def test_a_signal_with_the_last_step_stops_nothing_and_is_told(npz, tmp_path):
    disk = Disk()
    assert looped(signalled(training(npz), 5), tmp_path, disk).run_() == signal.SIGTERM
    assert disk.states == [3, 6]
    assert looped(training(npz), tmp_path, Disk()).run_() == 0


def test_a_full_disk_holds_the_run_until_a_signal_and_says_what_is_missing(npz, tmp_path):
    disk = Disk(full=True)
    with pytest.raises(RunError, match=r"without its last checkpoint \(no room on the disk\): make room"):
        looped(signalled(training(npz), 4), tmp_path, disk).run_()
    assert disk.states == [3]
    assert disk.closed == [True]


def test_a_full_memory_is_said_with_what_to_do(npz):
    run = training(npz)

    def full(batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate much.")

    with pytest.raises(RunError, match=r"memory of cpu is full: go on with --resume --micro-batch 16"):
        loop._step(replace(run, step=full), run.feed(0))


def test_a_signal_while_the_disk_is_only_slow_waits_for_the_checkpoint(npz, tmp_path):
    disk = Disk(slow=6)
    with pytest.raises(Interrupted):
        looped(signalled(training(npz), 4), tmp_path, disk).run_()
    assert disk.states == [3, 5]
    assert disk.closed == [False]
