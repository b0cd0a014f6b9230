"""The agent of torchrun starts ranks again after one has died: they go on from the last checkpoint."""

import json
import os
import signal

import torch
from rich.console import Console
from tests.conftest import stripes_npz, tiny_config
from tests.train.test_state import same
from tests.train.world import CONTEXT, in_ranks
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from semppl.core.rundir import RunDirectory
from semppl.train import build
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.pretrain import pretrain
from semppl.train.ranks import joined


def rank(npz, out, said):
    """Rank 1 dies at step 4, the first time."""
    torch.set_num_threads(1)
    real, first = build.train_step_, os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

    def step(state, *rest, **options):
        if first and os.environ["RANK"] == "1" and state.step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(state, *rest, **options)

    build.train_step_ = step
    with joined("cpu", 30.0) as (ranks, device), said.open("a") as words:
        console = Console(file=words, width=200)
        pretrain(tiny_config(npz), RunDirectory(out), console=console, ranks=ranks, device=device)


def launch(*arguments):
    """As `torchrun --nproc-per-node 2 --max-restarts 1` does, with ranks that have imported torch already."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        max_restarts=1,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        monitor_interval=0.1,
        start_method="fork",
    )
    elastic_launch(config, rank)(*arguments)


def undisturbed(ranks, device, npz, out):
    config, run = tiny_config(npz), RunDirectory(out)
    pretrain(config, run, console=Console(quiet=True), ranks=ranks, device=device)


def test_ranks_that_are_started_again_go_on_and_end_the_same(tmp_path):
    npz, said = stripes_npz(tmp_path / "d.npz"), tmp_path / "said.txt"
    torchrun = CONTEXT.Process(target=launch, args=(npz, tmp_path / "broken", said))
    torchrun.start()
    in_ranks(2, undisturbed, npz, tmp_path / "whole")
    torchrun.join(300)
    assert torchrun.exitcode == 0
    assert said.read_text().count("going on from step 3 of 6") == 1
    states = []
    for name in ("broken", "whole"):
        run = RunDirectory(tmp_path / name)
        states.append(load_checkpoint(newest_checkpoint(run))["state"])
        assert [row["step"] for row in run.read_metrics()] == [2, 4, 6]
    assert same(*states)
    assert torch.is_tensor(states[0]["queue"]["labels_C"])
    assert json.loads((tmp_path / "broken" / "environment.json").read_text())["job"]
