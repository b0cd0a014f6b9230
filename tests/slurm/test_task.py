import os
import pickle
import signal
import sys
import threading
import time

import pytest

import semppl.slurm.task as task
from semppl.slurm.task import Task, rank_environment
from semppl.train.interrupt import SIGNALS

PYTHON = [sys.executable, "-c"]
# says that it is there, then ends as a run does that a signal stops
STOPPABLE = """
import pathlib, signal, sys, time
def stop(signum, frame):
    sys.exit(128 + signum)
for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(signum, stop)
pathlib.Path(sys.argv[1]).touch()
while True:
    time.sleep(0.05)  # a signal just before a wait without end would be slept through
"""


@pytest.fixture(autouse=True)
def _handlers():
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture
def rank(monkeypatch, tmp_path):
    """`rank(1)`: this process is that task of a job on two machines."""

    def be(number, nodes=2):
        values = {
            "SUBMITIT_EXECUTOR": "slurm",
            "SUBMITIT_FOLDER": tmp_path / "logs",
            "SLURM_JOB_ID": 4711,
            "SLURM_NTASKS": 4,
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_NODEID": number * nodes // 4,
            "SLURM_PROCID": number,
            "SLURM_LOCALID": number % (4 // nodes),
            "SLURM_JOB_NODELIST": "gpu[07-08]" if nodes == 2 else "gpu07",
        }
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    for name in ("RANK", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return be


def when_there(file, do):
    """As soon as the child has written the file."""

    def work():
        while not file.exists():
            time.sleep(0.01)
        do()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def status_of(command):
    with pytest.raises(SystemExit) as caught:
        Task(command)()
    return caught.value.code


def test_a_rank_hears_what_torchrun_would_tell_it(rank):
    rank(3)
    there = rank_environment()
    assert {name: there[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")} == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
    }
    assert there["MASTER_ADDR"] == "gpu07"
    rank(0)
    assert rank_environment()["MASTER_PORT"] == there["MASTER_PORT"]
    assert "CUDA_VISIBLE_DEVICES" not in there


def test_one_machine_needs_no_name(rank):
    rank(3, nodes=1)
    there = rank_environment()
    assert (there["MASTER_ADDR"], there["LOCAL_RANK"], there["LOCAL_WORLD_SIZE"]) == ("127.0.0.1", "3", "4")


def test_the_child_has_it_and_success_is_silent(rank, capfd):
    rank(2)
    Task([*PYTHON, "import os; print(os.environ['RANK'], os.environ['LOCAL_WORLD_SIZE'])"])()
    assert capfd.readouterr() == ("2 2\n", "")


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(2)", 2), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_a_failure_is_the_tasks_and_names_its_log(rank, capfd, tmp_path, code, status):
    rank(1)
    assert status_of([*PYTHON, code]) == status
    log = tmp_path / "logs" / "4711_1_log.out"
    assert capfd.readouterr().err == (f"semppl: rank 1 of 4 failed with exit status {status}: see {log}\n")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_are_passed_on_and_the_main_rank_ends_with_the_childs_status(
    rank, tmp_path, signum, programs
):
    rank(0)
    programs(squeue="echo COMPLETING")
    thread = when_there(tmp_path / "there", lambda: os.kill(os.getpid(), signum))
    assert status_of([*PYTHON, STOPPABLE, tmp_path / "there"]) == 128 + signum
    thread.join()


def test_other_ranks_that_were_stopped_end_quietly_so_that_the_main_one_lives(rank, tmp_path, programs):
    rank(1)
    programs(squeue="exit 1")
    thread = when_there(tmp_path / "there", lambda: os.kill(os.getpid(), signal.SIGTERM))
    Task([*PYTHON, STOPPABLE, tmp_path / "there"])()
    thread.join()


def test_a_notice_of_preemption_does_not_end_the_run(rank, tmp_path, programs, capfd):
    """SLURM's own signal follows: here SIGUSR1 stands for it."""
    rank(0)
    programs(
        squeue=f'test "$*" = "--noheader --format=%T --jobs=4711" && touch {tmp_path}/asked && echo RUNNING'
    )

    def notice_then_end():
        os.kill(os.getpid(), signal.SIGTERM)
        when_there(tmp_path / "asked", lambda: os.kill(os.getpid(), signal.SIGUSR1)).join()

    thread = when_there(tmp_path / "there", notice_then_end)
    assert status_of([*PYTHON, STOPPABLE, tmp_path / "there"]) == 128 + signal.SIGUSR1
    thread.join()
    assert "the run goes on until then" in capfd.readouterr().err


def test_a_signal_before_there_is_a_child_ends_the_task():
    with pytest.raises(SystemExit) as caught:
        Task(["never"])._pass_on(signal.SIGUSR1, None)
    assert caught.value.code == 128 + signal.SIGUSR1


def test_a_checkpoint_stops_the_child_and_gives_the_same_command_again(rank, tmp_path):
    rank(0)
    given = []
    one = Task([*PYTHON, STOPPABLE, str(tmp_path / "there")])

    def requeue(signum, frame):
        given.append(one.checkpoint())

    signal.signal(signal.SIGUSR2, requeue)
    thread = when_there(tmp_path / "there", lambda: os.kill(os.getpid(), signal.SIGUSR2))
    with pytest.raises(SystemExit) as caught:
        one()
    thread.join()
    assert caught.value.code == 128 + signal.SIGUSR2
    (again,) = given
    assert pickle.loads(pickle.dumps(again)).function.command == one.command


def test_a_child_that_does_not_stop_is_killed_and_the_job_queued_again(rank, tmp_path, monkeypatch):
    rank(0)
    monkeypatch.setattr(task, "_PATIENCE", 0.2)
    deaf = STOPPABLE.replace("sys.exit(128 + signum)", "pass")
    one = Task([*PYTHON, deaf, str(tmp_path / "there")])
    signal.signal(signal.SIGUSR2, lambda signum, frame: one.checkpoint())
    thread = when_there(tmp_path / "there", lambda: os.kill(os.getpid(), signal.SIGUSR2))
    with pytest.raises(SystemExit) as caught:
        one()
    thread.join()
    assert caught.value.code == 128 + 9


def test_before_there_is_a_child_a_checkpoint_is_the_command():
    assert Task(["a", "b"]).checkpoint().function.command == ("a", "b")
