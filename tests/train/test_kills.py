"""A run that is killed at any moment and goes on ends as if nothing had happened."""

import os
import random
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tests.conftest import stripes_npz, tiny_config
from tests.train.test_equal_ranks import doubled_
from tests.train.test_state import same
from tests.train.world import CONTEXT, in_ranks
from torch.nn.functional import normalize

from semppl.config import OptimConfig
from semppl.core.rundir import RunDirectory
from semppl.train import build, encode, pretrain
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.encode import Nets
from semppl.train.interrupt import Interrupted
from semppl.train.parallel import spread_

QUIET = Console(quiet=True)
LONG = {"epochs": 20.0, "checkpoint_every": 0.7, "keep_checkpoints": 2, "log_every": 2}
STEPS = 60
STOPPED = 9
# where a process may be when it dies
CALLS = {"fsync": os, "train_step_": build, "replace": Path, "unlink": Path}


def count_down(module, name, left, later, signum=signal.SIGKILL):
    """A signal comes at the n-th call of a function, or later by so many times what the call before took."""
    real, took = getattr(module, name), 0.0

    def call(*args, **kwargs):
        nonlocal left, took
        left -= 1
        if left == 0 and later:
            threading.Timer(later * took, os.kill, (os.getpid(), signum)).start()
        elif left == 0:
            os.kill(os.getpid(), signum)
        started = time.monotonic()
        answer = real(*args, **kwargs)
        took = time.monotonic() - started
        return answer

    setattr(module, name, call)


def life(npz, out, death):
    """One process that starts or goes on, and dies at a call if it is told to."""
    torch.set_num_threads(1)
    if death is not None:
        name, left, later, *signum = death
        count_down(CALLS[name], name, left, later, *signum)
    run = RunDirectory(Path(out))
    config = tiny_config(npz, **LONG)
    try:
        pretrain.pretrain(config, run, console=QUIET, resume=run.exists)
    except Interrupted:
        os._exit(STOPPED)


def lived(npz, out, death=None):
    """The exit status of one life."""
    process = CONTEXT.Process(target=life, args=(str(npz), str(out), death))
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def final(out, steps=STEPS):
    content = load_checkpoint(newest_checkpoint(RunDirectory(Path(out))))
    assert content["state"]["step"] == steps
    return content["state"]


@pytest.fixture(scope="module")
def npz_file(tmp_path_factory):
    """48 images of 3 classes, 6 of them labelled."""
    return stripes_npz(tmp_path_factory.mktemp("data") / "stripes.npz")


@pytest.fixture(scope="module")
def whole(npz_file, tmp_path_factory):
    """A run that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole")
    assert lived(npz_file, out / "run") == 0
    return final(out / "run"), RunDirectory(out / "run").read_metrics()


def comparable(rows):
    return [{k: v for k, v in row.items() if k not in ("images_per_second", "data_wait")} for row in rows]


def test_killed_at_25_moments_it_ends_the_same(npz_file, tmp_path, whole):
    """9 of them by the clock, 16 inside a call: of a step, or while a file is written, named or dropped."""
    draw, out = random.Random(0), tmp_path / "run"
    deaths = [(name, draw.randint(1, 8), 0) for name in CALLS for _ in range(4)]
    deaths += [("train_step_", draw.randint(2, 4), draw.uniform(0.0, 2.0)) for _ in range(9)]
    for death in draw.sample(deaths, 25):
        assert lived(npz_file, out, death) == -signal.SIGKILL
    assert lived(npz_file, out) == 0
    assert same(final(out), whole[0])
    assert comparable(RunDirectory(out).read_metrics()) == comparable(whole[1])
    assert not list(out.rglob("*.tmp"))


def test_asked_to_stop_it_writes_a_checkpoint_and_ends_the_same(npz_file, tmp_path, whole):
    """By either signal twice."""
    draw, out, done = random.Random(0), tmp_path / "run", 0
    for signum in (signal.SIGTERM, signal.SIGUSR1) * 2:
        more = draw.randint(1, STEPS // 5)
        assert lived(npz_file, out, ("train_step_", more, 0, signum)) == STOPPED
        done += more
        final(out, done)
    assert lived(npz_file, out) == 0
    assert same(final(out), whole[0])


def part(ranks, device, npz, out, until):
    """Trains in float64, where the order of additions is not seen; the main rank hears a signal at a step."""

    def built(config, dataset, here, among):
        run = build.build_training(config, dataset, here, among)
        plan = replace(run.plan, nets=Nets(lambda net, x: net(x.double()), lambda head, x: head(x)))
        step = build.build_step(run.state, plan, "eager")

        def signalled(batch):
            if ranks.main and run.state.step + 1 == until:
                os.kill(os.getpid(), signal.SIGTERM)
            return step(batch)

        return replace(run, plan=plan, step=signalled)

    flat = {"epochs": 3.0, "optim": OptimConfig(name="sgd", base_lr=0.1), "sheet_every": 0.0}
    config = tiny_config(npz, **LONG | flat)
    run = RunDirectory(Path(out))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "unit", partial(normalize, dim=-1))
        patch.setattr(build, "spread_", lambda state, *rest: (doubled_(state), spread_(state, *rest)))
        patch.setattr(pretrain, "build_training", built)
        patch.setattr(pretrain, "Probe", lambda *given, **named: lambda encoder: {})
        patch.setattr(pretrain, "write_exhibit", lambda *given: None)
        try:
            pretrain.pretrain(config, run, console=QUIET, resume=run.exists, ranks=ranks, device=device)
        except Interrupted:
            return "stopped"
    return "done"


def test_a_run_may_go_on_with_another_number_of_ranks(npz_file, tmp_path):
    """2 → 1 → 2, stopped at steps that have no checkpoint otherwise."""
    assert in_ranks(1, part, npz_file, tmp_path / "one", None) == ["done"]
    out = tmp_path / "many"
    assert in_ranks(2, part, npz_file, out, 3) == ["stopped"] * 2
    assert in_ranks(1, part, npz_file, out, 5) == ["stopped"]
    assert in_ranks(2, part, npz_file, out, None) == ["done"] * 2
    expected, found = (final(each, 9) for each in (tmp_path / "one", out))
    for name in ("online", "target", "predictor", "queue"):
        for key, value in expected[name].items():
            assert torch.allclose(found[name][key].double(), value.double(), rtol=1e-7, atol=1e-9), key
