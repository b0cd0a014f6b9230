"""torchrun starts ranks again after one has died: they go on from the last checkpoint by themselves."""

import json
import os
import subprocess
import sys

import torch
from rich.console import Console
from tests.conftest import stripes_npz, tiny_config
from tests.train.test_state import same
from tests.train.world import in_ranks

from semppl.config import to_yaml
from semppl.core.rundir import RunDirectory
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.pretrain import pretrain

RANK = """
import os, signal, sys
from pathlib import Path
import torch
from rich.console import Console
import semppl.train.build as build
from semppl.config import from_yaml
from semppl.core.rundir import RunDirectory
from semppl.train.pretrain import pretrain
from semppl.train.ranks import joined

torch.set_num_threads(1)
real, first = build.train_step_, os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

def step(state, *rest, **options):
    if first and os.environ["RANK"] == "1" and state.step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(state, *rest, **options)

build.train_step_ = step
with joined("cpu", 30.0) as (ranks, device):
    config, run = from_yaml(Path(sys.argv[1]).read_text()), RunDirectory(Path(sys.argv[2]))
    pretrain(config, run, console=Console(width=200), ranks=ranks, device=device)
"""


def undisturbed(ranks, device, npz, out):
    config, run = tiny_config(npz), RunDirectory(out)
    pretrain(config, run, console=Console(quiet=True), ranks=ranks, device=device)


def test_ranks_that_are_started_again_go_on_and_end_the_same(tmp_path):
    npz, script, given = stripes_npz(tmp_path / "d.npz"), tmp_path / "rank.py", tmp_path / "given.yaml"
    script.write_text(RANK)
    given.write_text(to_yaml(tiny_config(npz)))
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    told = subprocess.run(
        [sys.executable, *words, str(script), str(given), str(tmp_path / "broken")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr
    assert "going on from step 3 of 6" in told.stdout
    in_ranks(2, undisturbed, npz, tmp_path / "whole")
    states = []
    for name in ("broken", "whole"):
        run = RunDirectory(tmp_path / name)
        states.append(load_checkpoint(newest_checkpoint(run))["state"])
        assert [row["step"] for row in run.read_metrics()] == [2, 4, 6]
    assert same(*states)
    assert torch.is_tensor(states[0]["queue"]["labels_C"])
    assert json.loads((tmp_path / "broken" / "environment.json").read_text())["job"]
