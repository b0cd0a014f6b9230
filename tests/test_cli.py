import os
import runpy
import signal
import sys
import time

import numpy as np
import pytest
import torch
from tests.train.test_state import same
from tests.train.world import CONTEXT

from semppl.cli import main
from semppl.core.errors import Elsewhere, RunError
from semppl.core.rundir import RunDirectory
from semppl.train import interrupt, loop
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.interrupt import Interrupted

TINY = [
    "--batch-size",
    "16",
    "--views.large",
    "2",
    "--views.small",
    "0",
    "--net.encoder",
    "resnet10",
    "--net.width",
    "0.0625",
    "--net.head-hidden",
    "16",
    "--net.head-outputs",
    "8",
    "--device",
    "cpu",
    "--log-every",
    "2",
    "--checkpoint-every",
    "1",
]


def call(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def one_line(capsys):
    err = capsys.readouterr().err
    assert err.startswith("semppl: ")
    assert err.count("\n") == 1, err
    return err


def test_pretrain_then_resume_from_the_command_line(npz, tmp_path, capsys):
    out = tmp_path / "run"
    assert call("pretrain", npz, "--out", out, "--epochs", "2", *TINY) == 0
    assert "48 images" in capsys.readouterr().out
    assert call("pretrain", "--resume", "--out", out) == 0
    assert "going on from step 6 of 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "{npz}", "--alhpa", "1"], "Unrecognized options: --alhpa"),
        (["pretrain", "{npz}", "--epoch", "1"], "Unrecognized options: --epoch, 1; perhaps --epochs"),
        (["pretrain", "{npz}", "--method.tie", "coin"], "invalid choice 'coin'"),
        (["pretrain", "{npz}", "--epochs", "many"], "--epochs"),
        (["train", "{npz}"], "Available subcommands: demo, fit"),
        (["pretrain"], "no data"),
        (["pretrain", "{tmp}/none.npz"], "none.npz: no such file"),
        (["pretrain", "{tmp}/nox.npz"], "nox.npz: no array 'x'"),
        (["pretrain", "{tmp}/range.npz"], "range.npz: label 7 is out of range"),
        (["pretrain", "{tmp}/gap.npz"], "class 'bee' has no label"),
        (["pretrain", "{npz}", "--batch-size", "49"], "batch size 49 is larger than the data (48 images)"),
        (
            ["pretrain", "{npz}", "--preset", "quick"],
            "unknown preset 'quick': choose from auto, cifar10-250, cifar10-40, cifar10-4000, digits, paper",
        ),
        (["pretrain", "{npz}", "--net.encoder", "resnet19"], "unknown encoder 'resnet19'"),
        (["pretrain", "{npz}", "--device", "abacus"], "unknown device 'abacus'"),
        (["pretrain", "{npz}", "--resume"], "--resume needs --out"),
        (["pretrain", "--resume", "--out", "{tmp}/none"], "holds no run"),
        (["pretrain", "{npz}", "--init-from", "{tmp}/none.ckpt"], "no such checkpoint"),
        (["pretrain", "{npz}", "--init-from", "{tmp}"], "no checkpoint to start from"),
        (["pretrain", "{npz}", "--device", "meta"], "device 'meta' is not supported"),
        (["pretrain", "{npz}", "--precision", "bf16", "--device", "cpu"], "bf16 is for GPUs"),
        (["pretrain", "{npz}", "--method.minimum-votes", "17"], "--method.minimum-votes is 17"),
        (["pretrain", "--resume", "--out", "x", "--preset", "paper"], "leave --preset out"),
        (["demo", "--seeds", "0"], "at least one seed"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_writes_nothing(
    npz, tmp_path, monkeypatch, capsys, arguments, words
):
    images = np.zeros((4, 8, 8), dtype=np.uint8)
    names = np.array(["ant", "bee"])
    np.savez(tmp_path / "nox.npz", images=images)
    np.savez(tmp_path / "range.npz", x=images, y=np.array([0, 1, 7, -1]), classes=names)
    np.savez(tmp_path / "gap.npz", x=images, y=np.array([0, 0, -1, -1]), classes=names)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert call(*(word.format(npz=npz, tmp=tmp_path) for word in arguments)) == 2
    assert words in one_line(capsys)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_that_cannot_be_written_or_holds_something_is_left_alone(npz, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert call("pretrain", npz, "--out", tmp_path / "file", *TINY) == 2
    assert "is a file" in one_line(capsys)
    assert call("pretrain", npz, "--out", tmp_path / "file" / "run", *TINY) == 2
    assert "cannot write to" in one_line(capsys)
    assert call("pretrain", npz, "--out", "/proc/run", *TINY) == 2
    assert "cannot write to /proc/run" in one_line(capsys)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for flags in ([], ["--overwrite"]):
        assert call("pretrain", npz, "--out", tmp_path / "full", *flags, *TINY) == 2
        assert "full" in one_line(capsys)
    assert (tmp_path / "full" / "notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"


def test_resuming_with_another_split_is_refused(npz, tmp_path, capsys):
    out = tmp_path / "run"
    assert call("pretrain", npz, "--out", out, "--epochs", "1", *TINY) == 0
    arrays = dict(np.load(npz))
    arrays["y"][10] = 0
    np.savez(npz, **arrays)
    capsys.readouterr()
    assert call("pretrain", npz, "--resume", "--out", out) == 2
    assert "another split" in one_line(capsys)
    assert call("pretrain", "--resume", "--out", out, "--method.alpha", "0.9") == 2
    assert "--method.alpha" in one_line(capsys)


def test_the_same_command_with_resume_goes_on_even_with_switches(npz, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(npz.parent)
    flags = ["--out", "run", "--epochs", "1", "--views.no-colour", "--method.no-divide-by-positives", *TINY]
    assert call("pretrain", npz.name, *flags) == 0
    monkeypatch.chdir("/")
    flags[1] = npz.parent / "run"
    assert call("pretrain", "--resume", *flags) == 0
    assert "going on from step 3 of 3" in capsys.readouterr().out
    assert call("pretrain", "--resume", *flags, "--overwrite") == 2


def test_an_unexpected_error_is_one_line_and_debug_shows_more(npz, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the cat\nsat on the keyboard")

    monkeypatch.setattr("semppl.train.pretrain.pretrain", fail)
    assert call("pretrain", npz, "--out", tmp_path / "x") == 1
    assert "RuntimeError: the cat (--debug shows where)" in one_line(capsys)
    assert call("pretrain", npz, "--out", tmp_path / "x", "--debug") == 1
    assert "Traceback" in capsys.readouterr().err


def test_help_and_version(capsys):
    for arguments in (["--help"], ["pretrain", "--help"], ["demo", "--help"], []):
        assert call(*arguments) == 0
    assert "--method.alpha" in capsys.readouterr().out
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("semppl 0.")


def waits(there, said, words):
    """`python -m semppl`, except that it waits at step 4 until a signal has come."""
    torch.set_num_threads(1)  # as all tests do
    with said.open("wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    note, step, noted = interrupt.Stopper._note, loop._step, []

    def noting(self, signum, frame):
        note(self, signum, frame)
        noted.append(signum)

    def waiting(training, batch):
        if training.state.step == 4:
            there.set()
            while not noted:
                time.sleep(0.01)
        return step(training, batch)

    interrupt.Stopper._note, loop._step = noting, waiting
    sys.argv = ["semppl", *map(str, words)]
    runpy.run_module("semppl", run_name="__main__", alter_sys=True)


def test_a_signal_writes_a_checkpoint_and_the_rest_gives_the_same_weights(npz, tmp_path, capsys):
    """SIGINT, as Ctrl-C sends it; others: tests/train/test_kills.py."""
    flags = ["--epochs", "3", *TINY, "--checkpoint-every", "1000"]
    whole, broken = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "broken")
    there, said = CONTEXT.Event(), tmp_path / "said"
    process = CONTEXT.Process(
        target=waits, args=(there, said, ["pretrain", npz, "--out", broken.path, *flags])
    )
    process.start()
    assert call("pretrain", npz, "--out", whole.path, *flags) == 0
    assert there.wait(300), said.read_text()
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 128 + signal.SIGINT
    assert "its checkpoint is written: go on with `semppl pretrain --resume" in said.read_text()
    assert load_checkpoint(newest_checkpoint(broken))["state"]["step"] == 5
    assert call("pretrain", "--resume", "--out", broken.path) == 0
    assert "going on from step 5 of 9" in capsys.readouterr().out
    ends = [load_checkpoint(newest_checkpoint(run))["state"] for run in (whole, broken)]
    assert ends[0]["step"] == 9
    assert same(*ends)


BENCH = [
    "--encoder",
    "resnet10",
    "--width",
    "0.0625",
    "--image-size",
    "8",
    "--batch-size",
    "4",
    "--large",
    "2",
]
BENCH += [
    "--small",
    "0",
    "--queue",
    "20",
    "--classes",
    "3",
    "--steps",
    "1",
    "--rounds",
    "1",
    "--device",
    "cpu",
]


def test_bench_measures_keeps_and_shows_again(tmp_path, capsys):
    out = tmp_path / "bench"
    assert call("bench", *BENCH, "--out", out) == 0
    first = capsys.readouterr().out
    assert "encoders alone (floor)" in first
    assert call("bench", "--show", out / "bench.json") == 0
    again = capsys.readouterr().out
    assert again.strip() in first
    assert call("bench", *BENCH, "--out", out) == 2
    assert "bench.json is there already" in one_line(capsys)


def test_bench_refuses_what_is_not_there(tmp_path, capsys):
    assert call("bench", "--show", tmp_path / "none.json") == 2
    assert "none.json: no such file" in one_line(capsys)
    assert call("bench", *BENCH, "--images", tmp_path / "nowhere") == 2
    assert "nowhere: no such folder of images" in one_line(capsys)
    assert call("bench", "--encoder", "resnet11", "--device", "cpu") == 2
    assert "resnet11" in one_line(capsys)


def quick_fit(root, out, *more):
    flags = ["--epochs", "1", "--out", out, "--no-finetune", "--no-baselines", "--workers", "0", *TINY]
    return call("fit", root, *flags, *more)


def test_fit_then_predict_from_the_command_line(class_folders, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    assert quick_fit(class_folders, out, "--labels-per-class", "4", "--batch-size", "8") == 0
    said = capsys.readouterr().out
    assert "36 images of 8×8 px, 9 labelled in 3 classes, 3 more labels held out" in said
    assert "no baseline was run" in said
    assert quick_fit(class_folders, out, "--labels-per-class", "4") == 2
    assert "go on with --resume" in one_line(capsys)
    assert call("fit", "--resume", "--out", out, "--no-finetune", "--no-baselines") == 0
    capsys.readouterr()

    plain = ("--device", "cpu", "--workers", "0")
    assert call("evaluate", out, "--protocol", "knn,linear", *plain) == 0
    assert "protocol: k-NN: cosine, k=7, T=0.1; 12 given labels; 24 images whose" in capsys.readouterr().out
    assert call("evaluate", out, *plain) == 2
    assert "knn.json is there already" in one_line(capsys)
    assert call("evaluate", "--compare", out) == 0
    said = capsys.readouterr().out
    assert "SemPPL, linear" in said, "results of fit stand beside them"
    assert "knn" in said

    # the exported model alone, elsewhere, without the images that it was trained on
    (out / "model").rename(tmp_path / "moved")
    new = tmp_path / "new"
    (class_folders / "owl").rename(new)
    assert call("predict", tmp_path / "moved", new, "--device", "cpu", "--workers", "0") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("path,label,probability,vote_share,cosine,nearest_1")
    assert len(table) == 13
    assert call("predict", tmp_path / "moved", new, "--out", tmp_path / "p.csv", "--device", "cpu") == 0
    assert (tmp_path / "p.csv").read_text().splitlines() == table


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("cat/000.png,cat\ndog/000.png,dog\n", "labels.csv: .*path,label"),
        ("path,label\ncat/000.png,cat\nnowhere.png,dog\n", r"row 3: .*nowhere\.png"),
        ("path,label\ncat/000.png,cat\n../out.png,dog\n", r"row 3: .*out\.png"),
        ("path,label\ncat/000.png,cat\ndog/000.png,dog\ncat/000.png,dog\n", "row 4"),
        ("path,label\ncat/000.png,cat\ncat/001.png,cat\n", "only one class, 'cat' .row 2"),
        ("path,label\n", "label"),
    ],
)
def test_mistakes_in_a_table_are_one_line_that_names_the_row(table, words, class_folders, tmp_path, capsys):
    import re

    (tmp_path / "labels.csv").write_text(table)
    assert quick_fit(class_folders, tmp_path / "run", "--labels", tmp_path / "labels.csv") == 2
    assert re.search(words, one_line(capsys))
    assert not (tmp_path / "run").exists()


def test_predict_says_what_is_missing(tmp_path, capsys):
    assert call("predict") == 2
    assert "semppl predict RUN IMAGES" in one_line(capsys)
    assert call("predict", tmp_path, tmp_path) == 2
    assert "no model that knows labels here" in one_line(capsys)
    assert call("fit") == 2
    assert "no data: semppl fit DATA" in one_line(capsys)


def test_tables_that_are_not_joined_are_answered_with_the_command(capsys):
    assert call("ablate", "voting", "k") == 2
    assert "several tables are joined by commas: semppl ablate voting,k" in one_line(capsys)
    assert call("ablate", "voting", "k", "queue", "images.npz", "--seeds", "2") == 2
    assert "several tables are joined by commas: semppl ablate voting,k,queue (" in one_line(capsys)
    assert call("ablate") == 2
    assert "say which table: semppl ablate TABLE, one of base, parts" in one_line(capsys)


def test_evaluate_without_a_run_is_one_line(tmp_path, capsys):
    assert call("evaluate", "--protocol", "knn", tmp_path) == 2
    assert "before any flag: semppl evaluate RUN" in one_line(capsys)
    assert call("evaluate", tmp_path, "--protocol", "knm") == 2
    assert "unknown protocol 'knm'" in one_line(capsys)
    assert call("evaluate", tmp_path) == 2
    assert "holds no run" in one_line(capsys)
    assert call("evaluate", "--compare", tmp_path) == 2
    assert "no results yet" in one_line(capsys)


def test_masks_need_data_and_opencv(tmp_path, capsys, monkeypatch):
    assert call("masks", "--refine", "off") == 2
    assert "before any flag: semppl masks DATA" in one_line(capsys)
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert call("masks", tmp_path) == 2
    assert "pip install 'semppl[masks]'" in one_line(capsys)


@pytest.mark.parametrize(("rank", "heard"), [("0", True), ("3", False)])
def test_what_is_wrong_with_a_command_is_said_by_the_main_rank_alone(monkeypatch, capsys, rank, heard):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(SystemExit) as left:
        main(["fit", "digits"])
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said == ("semppl: semppl fit is for one process: start it without torchrun\n" if heard else "")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RunError("the disk is gone"), 1, "semppl, rank 3: the disk is gone\n"),
        (Elsewhere("another rank says why"), 1, ""),
        (Interrupted("stopped", signal.SIGTERM), 143, ""),
    ],
)
def test_what_only_one_rank_knows_is_said_with_its_name(monkeypatch, capsys, error, status, said):
    def fail(*given, **named):
        raise error

    monkeypatch.setattr("semppl.protocols.run.run_evaluate", fail)
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(SystemExit) as left:
        main(["evaluate", "runs/x"])
    assert left.value.code == status
    assert capsys.readouterr().err == said
