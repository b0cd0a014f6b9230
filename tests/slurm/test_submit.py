import pickle
import shutil
import sys

import numpy as np
import pytest
from tests.slurm.conftest import TINY

import semppl.slurm.submit as submit
from semppl.cli import main
from semppl.core.rundir import RunDirectory

CPU = ["--slurm", "--slurm-gpus", "0"]


@pytest.fixture
def cluster(programs, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    programs(sbatch="echo Submitted batch job 4711", srun="exit 1")


def call(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def test_the_same_command_waits_in_the_queue_and_nothing_else_is_written(npz, tmp_path, capsys, cluster):
    out = tmp_path / "runs" / "one"
    about_job = [*CPU, "--slurm-tasks", "2", "--slurm_nodes=3"]
    assert call("pretrain", npz, "--out", out, *about_job, *TINY) == 0
    logs = tmp_path / "runs" / "one.slurm"
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "job 4711: 3 nodes of 2 processes, 24 h at a time"
    assert said[1] == f"  logs    tail -F {logs}/4711_0_log.out"
    assert said[2:4] == ["  watch   squeue -j 4711", "  stop    scancel 4711  (writes a checkpoint first)"]
    again = f"semppl pretrain --resume --out {out} {' '.join(about_job)}"
    assert said[4].startswith(f"  go on   {again}  (only if")
    assert not out.exists()
    task = pickle.loads((logs / "4711_submitted.pkl").read_bytes()).function
    assert task.command == (sys.executable, "-m", "semppl", "pretrain", str(npz), "--out", str(out), *TINY)


def test_without_submitit_one_line_says_how_to_have_it(npz, tmp_path, capsys, cluster, monkeypatch):
    monkeypatch.setattr(submit, "find_spec", lambda name: None)
    assert call("pretrain", npz, "--out", tmp_path / "x", *CPU) == 2
    assert capsys.readouterr().err == 'semppl: --slurm needs submitit: pip install "semppl[slurm]"\n'


@pytest.mark.parametrize("missing", ["sbatch", "srun"])
def test_where_there_is_no_slurm(npz, tmp_path, capsys, monkeypatch, cluster, missing):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
    assert call("pretrain", npz, "--out", tmp_path / "x", *CPU) == 2
    assert f"there is no {missing} here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--slurm-gpus", "0", "--slurm-nodes", "0"], "--slurm-nodes is 0"),
        (["--device", "cpu"], "--device cpu leaves 8 GPUs of each machine idle: give --slurm-gpus 0"),
        (["--device", "abacus"], "unknown device 'abacus'"),
        (["--slurm-gpus", "0", "--device", "cuda"], "--slurm-gpus 0 is for --device cpu"),
        (["--slurm-gpus", "0", "--precision", "bf16"], "--slurm-gpus 0 is for --device cpu"),
        (["--slurm-gpus", "2", "--slurm-tasks", "3"], "--slurm-tasks 3 are more than 2 GPUs: each"),
        (["--slurm-gpus", "1", "--slurm-tasks", "2"], "--slurm-tasks 2 are more than 1 GPU: each"),
        (["--slurm-nodes", "3", "--batch-size", "23"], "--batch-size 23 is too small to be shared by 24"),
        (["--net.norm-ranks", "3"], "--net.norm-ranks 3 does not divide 8 ranks"),
        (["--net.encoder", "resnet19"], "unknown encoder 'resnet19'"),
        (["--net.encoder", "resnet18", "--net.sk"], "selective kernels are for resnet50"),
        (["--init-from", "none.ckpt"], "none.ckpt"),
        (["--labels", "none.csv"], "none.csv: no such file"),
        (["--out", "full"], "full is not empty"),
        (["--out", "stripes.npz"], "is a file"),
        (["--resume", "--out", "full"], "holds no run"),
        (["--out", ".", "--overwrite"], "stripes.npz lies in ., which would be replaced"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_is_submitted(
    npz, tmp_path, capsys, monkeypatch, cluster, flags, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "config.yaml").write_text("source: stripes.npz\n")  # of a run of ours
    before = sorted(tmp_path.rglob("*"))
    assert call("pretrain", npz, "--slurm", *flags) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_data_that_is_not_there_and_names_that_need_no_file(tmp_path, capsys, monkeypatch, cluster):
    monkeypatch.chdir(tmp_path)
    assert call("pretrain", "photos", *CPU) == 2
    assert "photos: no such data" in capsys.readouterr().err
    for name in ("digits", "cifar10"):
        assert call("pretrain", name, *CPU) == 0
        assert (tmp_path / "runs" / f"{name}-seed0.slurm" / "4711_submitted.pkl").is_file()


def test_flags_of_a_job_without_a_job_and_torchrun_with_one(npz, tmp_path, capsys, monkeypatch, cluster):
    assert call("pretrain", npz, "--out", tmp_path / "x", "--slurm-nodes", "2") == 2
    assert "--slurm-nodes says how a job runs: give --slurm, too" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    assert call("pretrain", npz, "--out", tmp_path / "x", *CPU) == 2
    assert "leave torchrun out" in capsys.readouterr().err


def test_a_run_to_go_on_with_must_be_the_same_and_in_nobodys_use(npz, tmp_path, capsys, cluster):
    run = RunDirectory(tmp_path / "run")
    assert call("pretrain", npz, "--out", run.path, "--epochs", "1", *TINY) == 0
    again = ["pretrain", "--resume", "--out", run.path, *CPU]
    assert call(*again, "--method.alpha", "0.9") == 2
    assert "--method.alpha" in capsys.readouterr().err
    assert call(*again, "--overwrite") == 2
    assert "--resume goes on with a run" in capsys.readouterr().err
    assert call("pretrain", npz, "--out", run.path, *CPU) == 2
    assert "is not empty" in capsys.readouterr().err
    npz_elsewhere = tmp_path / "moved.npz"
    np.savez(npz_elsewhere, **dict(np.load(npz)))
    npz.unlink()
    assert call(*again) == 2
    assert "stripes.npz: no such data" in capsys.readouterr().err
    before = sorted(run.path.rglob("*"))
    assert call("pretrain", npz_elsewhere, *again[1:]) == 0
    assert call("pretrain", npz_elsewhere, "--out", run.path, "--overwrite", *CPU) == 0
    assert sorted(run.path.rglob("*")) == before


def test_a_folder_that_another_run_holds(npz, tmp_path, capsys, cluster, monkeypatch):
    run = RunDirectory(tmp_path / "run")

    def taken(self):
        raise submit.UserError(f"{self.path} is in use by process 7 on gpu07: wait for it")

    monkeypatch.setattr(RunDirectory, "locked", taken)
    assert call("pretrain", npz, "--out", run.path, *CPU) == 2
    assert "in use by process 7" in capsys.readouterr().err
