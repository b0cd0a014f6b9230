import json
import re
import sys
import time

import pytest
from tests.slurm.conftest import TINY

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.slurm.queue import enqueue
from semppl.slurm.settings import SlurmFlags
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint

CPU = SlurmFlags(slurm=True, slurm_gpus=0)


# the command semppl, except that the main rank waits at step 3 until a signal has come
WAITING = """
import pathlib, sys, time
from semppl.cli import main
from semppl.train import interrupt, loop

note, step, noted = interrupt.Stopper._note, loop._step, []

def noting(self, signum, frame):
    note(self, signum, frame)
    noted.append(signum)

def waiting(training, batch):
    if training.ranks.main and training.state.step == 3:
        pathlib.Path(sys.argv[1]).touch()
        while not noted:
            time.sleep(0.01)
    return step(training, batch)

interrupt.Stopper._note, loop._step = noting, waiting
main(sys.argv[2:])
"""


@pytest.fixture
def local(monkeypatch, tmp_path):
    """Runs on submitit's own cluster of one machine."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("RANK", "SLURM_JOB_ID", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    # the controller of such a job passes this signal on, and no other
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", "TERM")
    jobs = []

    def start(tasks, *command):
        # `env`, because the number of a SLURM job must not seem to be that of the process which submits
        words = ["env", "SLURM_JOB_ID=4711", sys.executable, *map(str, command), *TINY]
        flags = SlurmFlags(slurm=True, slurm_gpus=0, slurm_tasks=tasks)
        jobs.append(enqueue(flags, words, tmp_path / "run.slurm", "test", "local"))
        return jobs[-1]

    yield start
    for job in jobs:
        job.cancel()
        job._process.wait()


def log_of(job, rank):
    return job.task(rank).paths.stdout.read_text()


def test_two_tasks_train_together_and_a_signal_from_the_cluster_only_delays_them(local, tmp_path, npz):
    run, there = RunDirectory(tmp_path / "run"), tmp_path / "there"
    job = local(2, "-c", WAITING, there, "pretrain", npz, "--out", run.path, "--epochs", 3)
    while not there.exists():
        assert job._process.poll() is None, log_of(job, 0)
        time.sleep(0.01)
    job._process.terminate()
    assert job._process.wait(600) == 0
    first, second = log_of(job, 0), log_of(job, 1)
    for words in (
        "stopped at step 4 of 9; its checkpoint is written",
        f"Requeued job {job.job_id}",
        "going on from step 4 of 9",
        f"done: {run.path}",
    ):
        assert first.count(words) == 1, first
    assert "failed" not in first + second
    assert job.results() == [None, None]
    assert load_checkpoint(newest_checkpoint(run))["state"]["step"] == 9
    assert [row["step"] for row in run.read_metrics()] == [2, 4, 6, 8, 9]
    assert json.loads(run.environment.read_text())["job"] == ["slurm 4711"]


def test_a_run_that_fails_says_why_in_the_log_and_is_not_queued_again(local):
    job = local(1, "-c", "import sys; print('semppl: bad', file=sys.stderr); sys.exit(2)")
    job._process.wait(600)
    log = log_of(job, 0)
    said = f"semppl: bad\nsemppl: rank 0 of 1 failed with exit status 2: see {job.paths.stdout}\n"
    assert log.endswith(said)
    assert "Requeued" not in log
    assert not job.paths.result_pickle.exists()


def test_what_sbatch_is_told(tmp_path, programs):
    programs(sbatch='cp "$1" "$(dirname "$0")/told"; echo Submitted batch job 4711', srun="exit 1")
    flags = SlurmFlags(slurm=True, slurm_nodes=2, slurm_hours=1.51, slurm_partition="gpu", slurm_account="me")
    job = enqueue(flags, ["a"], tmp_path / "x.slurm", "semppl-x")
    assert job.job_id == "4711"
    told = (tmp_path / "bin" / "told").read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", told, flags=re.M))
    wanted = {
        "job-name": "semppl-x",
        "nodes": "2",
        "ntasks-per-node": "8",
        "gpus-per-node": "8",
        "cpus-per-task": "10",
        "time": "91",
        "partition": "gpu",
        "account": "me",
        "signal": "USR2@180",
        "requeue": "",
        "open-mode": "append",
        "output": str(tmp_path / "x.slurm" / "%j_0_log.out"),
    }
    assert wanted.items() <= options.items()
    assert re.search(r"^srun .* --cpus-per-task=10 ", told, flags=re.M)


def test_no_gpus_are_not_mentioned(tmp_path, programs):
    programs(sbatch='cp "$1" "$(dirname "$0")/told"; echo Submitted batch job 4711', srun="exit 1")
    enqueue(CPU, ["a"], tmp_path / "x.slurm", "semppl-x")
    assert "--gpus" not in (tmp_path / "bin" / "told").read_text()


@pytest.mark.parametrize("before", [False, True])
def test_what_sbatch_refuses_is_one_line_and_leaves_nothing(tmp_path, programs, before):
    programs(
        sbatch="echo 'sbatch: error: invalid partition: x' >&2; echo 'sbatch: error: no job' >&2; exit 1",
        srun="exit 1",
    )
    folder = tmp_path / "deep" / "x.slurm"
    if before:
        folder.mkdir(parents=True)
        (folder / "1_0_log.out").write_text("an earlier job")
    with pytest.raises(UserError, match=r"^the job could not be submitted: invalid partition: x; no job$"):
        enqueue(CPU, ["a"], folder, "x")
    assert [path.name for path in folder.rglob("*")] == (["1_0_log.out"] if before else [])
    assert folder.parent.exists() == before


def test_a_folder_for_logs_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"could not be submitted: .*file"):
        enqueue(CPU, ["a"], tmp_path / "file" / "x.slurm", "x")


def test_inside_a_job_its_words_do_not_reach_the_next_one(tmp_path, programs, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
    programs(
        sbatch='env > "$(dirname "$0")/told"; echo Submitted batch job 4711',
        srun="exit 1",
    )
    enqueue(CPU, ["a"], tmp_path / "x.slurm", "x")
    assert "SLURM_" not in (tmp_path / "bin" / "told").read_text()
