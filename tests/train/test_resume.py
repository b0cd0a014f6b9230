import json
import os
import socket
from dataclasses import replace

import pytest
from tests.conftest import tiny_config
from tests.train.test_state import training
from tests.train.world import in_ranks

from semppl.config import DataConfig, to_yaml
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.differing import FREE
from semppl.train.checkpoint import write_checkpoint
from semppl.train.resume import job, require_same_run, require_same_step, restarted, resume_

FACTS = {"split": "a", "data": "b", "masks": None}
CLUSTER = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_(to_yaml(tiny_config("d.npz")), overwrite=False)
    run.checkpoints.mkdir()
    return run


def test_what_may_differ_may_and_what_may_not_is_named(run):
    config = tiny_config("d.npz")
    for name in ("device", "timeout", "log_every", "sheet_every"):
        assert name in FREE
    require_same_run(replace(config, device="cuda:3", timeout=5.0, source="elsewhere"), run, {"split": "a"})
    require_same_run(replace(config, micro_batch=16), run, {"split": "a"})
    changed = replace(config, seed=4, net=replace(config.net, width=2.0))
    with pytest.raises(UserError, match=r"other values of --seed, --net\.width: leave them out"):
        require_same_run(changed, run, {"split": "a"})
    run.split_sha256.write_text("b  split.csv\n")
    with pytest.raises(UserError, match="another split"):
        require_same_run(config, run, {"split": "a"})


def test_a_run_goes_on_from_its_newest_checkpoint_and_forgets_what_comes_again(npz, run):
    old, new = training(npz), training(npz)
    old.step(old.feed(0))
    write_checkpoint(run, old.state.state_dict(), FACTS)
    for step in (1, 2):
        run.append_metrics({"step": step})
    resume_(new, run, FACTS, print)
    assert new.state.step == 1
    assert [row["step"] for row in run.read_metrics()] == [1]
    for wrong, words in (({"split": "x"}, "another split"), ({"data": "x"}, "images are not those")):
        with pytest.raises(UserError, match=words):
            resume_(new, run, FACTS | wrong, print)


@pytest.mark.parametrize(
    ("masks", "named"), [("/m/photos.masks", "/m/photos.masks"), ("own", r"d\.npz"), (None, r"d\.npz")]
)
@pytest.mark.parametrize("known", ["m", None])
def test_other_masks_than_those_of_the_run_are_refused_by_name(npz, run, masks, named, known):
    state = training(npz)
    write_checkpoint(run, state.state.state_dict(), FACTS | {"masks": known})
    config = to_yaml(tiny_config("d.npz", data=DataConfig(masks=masks)))
    words = (
        rf"^the masks in {named} are not those that .*\.ckpt was trained with: bring those back .* new run$"
    )
    with pytest.raises(UserError, match=words):
        resume_(state, run, FACTS | {"masks": "other", "config": config}, print)
    assert resume_(state, run, FACTS | {"masks": known}, print)


@pytest.mark.parametrize("masks", ["m", None])
def test_a_checkpoint_of_an_older_version_does_not_say_which_masks_it_had(npz, run, masks):
    state = training(npz)
    write_checkpoint(run, state.state.state_dict(), {"split": "a", "data": "b"})
    assert resume_(state, run, FACTS | {"masks": masks}, print)


def differently(ranks, device, npz, folder):
    """Each rank looks into a folder of its own."""
    mine = RunDirectory(folder / str(ranks.share.rank))
    mine.checkpoints.mkdir(parents=True)
    state = replace(training(npz), ranks=ranks)
    state.state.step = ranks.share.rank
    write_checkpoint(mine, state.state.state_dict(), FACTS)
    resume_(state, mine, FACTS, print)
    try:
        require_same_step(state, mine)
    except UserError as error:
        return str(error)


def test_ranks_that_find_different_checkpoints_do_not_begin(npz, tmp_path):
    for words in in_ranks(2, differently, str(npz), tmp_path):
        assert "all machines must see that folder" in words


def test_a_job_is_known_by_its_cluster_or_its_launcher(monkeypatch):
    for name in CLUSTER:
        monkeypatch.delenv(name, raising=False)
    assert job() == []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    launcher = f"torchrun none {socket.gethostname()} {os.getppid()}"
    assert job() == [launcher]
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert job() == ["slurm 17", launcher]


def test_only_the_job_that_began_a_run_goes_on_by_itself(run, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    run.environment.write_text(json.dumps({"job": ["slurm 17"]}))
    assert not restarted(run)  # the same job, by hand
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert restarted(run)
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    assert not restarted(run)
    run.environment.write_text("{")
    assert not restarted(run)
    assert not restarted(RunDirectory(run.path / "none"))


def test_a_job_that_was_killed_before_it_could_sign_goes_on_if_nothing_is_lost(npz, run, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert not restarted(run)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert restarted(run)
    write_checkpoint(run, training(npz).state.state_dict(), FACTS)
    assert not restarted(run)


def test_torchrun_does_not_count_every_restart(run, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    run.environment.write_text(json.dumps({"job": job()}))
    assert restarted(run)


def test_two_commands_of_torchrun_in_one_allocation_are_two_jobs(run, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    run.environment.write_text(json.dumps({"job": ["slurm 17", "torchrun none elsewhere 1"]}))
    assert not restarted(run)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert restarted(run)  # the allocation itself began anew, and with it torchrun
