import json
import os
import shutil
import signal
import socket
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.conftest import stripes, stripes_npz, tiny_config
from tests.train.test_state import same
from tests.train.world import CONTEXT, in_ranks

import semppl.train.build as build
import semppl.train.pretrain as verb
from semppl.config import DataConfig, MethodConfig, NetConfig, OptimConfig, from_yaml
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.data.masks import write_mask
from semppl.method.objective import Terms
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.interrupt import Interrupted
from semppl.train.pretrain import pretrain
from semppl.train.step import Outcome


class Finished(NamedTuple):
    """Six steps that nobody disturbed; for all to look at, and to copy."""

    npz: Path
    run: RunDirectory
    state: dict[str, Any]

    def copy(self, folder):
        path = shutil.copytree(self.run.path, folder / "run", symlinks=True)
        return RunDirectory(Path(path))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finished")
    npz, run = stripes_npz(folder / "stripes.npz"), RunDirectory(folder / "run")
    return Finished(npz, run, pretrain(tiny_config(npz), run, console=Console(quiet=True)).state_dict())


class Crash(BaseException):
    """Stands for kill -9: nothing of ours catches it."""


def before_step(monkeypatch, number, does):
    """Counted from 1."""
    real, calls = build.train_step_, []

    def step(*arguments, **options):
        calls.append(1)
        if len(calls) == number:
            does()
        return real(*arguments, **options)

    monkeypatch.setattr(build, "train_step_", step)


def crash_after(monkeypatch, steps):
    def crash():
        raise Crash

    before_step(monkeypatch, steps + 1, crash)


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    "method", [{}, {"objective": "byol"}, {"objective": "simclr"}, {"semantic_partner": "store"}]
)
def test_six_steps_equal_three_a_kill_and_the_rest_bit_for_bit(npz, tmp_path, quiet, monkeypatch, method):
    config = tiny_config(npz, method=MethodConfig(**{"positives": 2, "queue_capacity": 20, **method}))
    whole = pretrain(config, RunDirectory(tmp_path / "whole"), console=quiet)
    assert whole.step == 6
    broken = RunDirectory(tmp_path / "broken")
    with monkeypatch.context() as patch:
        crash_after(patch, 4)
        with pytest.raises(Crash):
            pretrain(config, broken, console=quiet)
    assert (broken.checkpoints / "last").resolve().name == "step-00000003.ckpt"
    resumed = pretrain(config, broken, console=quiet, resume=True)
    assert same(whole.state_dict(), resumed.state_dict())
    steps = [row["step"] for row in broken.read_metrics()]
    assert steps == sorted(set(steps)) == [2, 4, 6]


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(
    finished, tmp_path, quiet, monkeypatch
):
    config, broken = tiny_config(finished.npz), RunDirectory(tmp_path / "broken")
    with monkeypatch.context() as patch:
        crash_after(patch, 2)
        with pytest.raises(Crash):
            pretrain(config, broken, console=quiet)
    assert not list(broken.checkpoints.iterdir())
    assert same(finished.state, pretrain(config, broken, console=quiet, resume=True).state_dict())
    assert [row["step"] for row in broken.read_metrics()] == [2, 4, 6]


def test_ctrl_c_with_the_last_step_ends_the_job_of_which_training_is_a_part(
    finished, tmp_path, quiet, monkeypatch
):
    config, alone, part = tiny_config(finished.npz), *(RunDirectory(tmp_path / name) for name in "ab")
    with monkeypatch.context() as patch:
        before_step(patch, 6, ctrl_c)
        assert same(finished.state, pretrain(config, alone, console=quiet).state_dict())
    with monkeypatch.context() as patch:
        before_step(patch, 6, ctrl_c)
        with pytest.raises(
            Interrupted, match=r"^stopped after pre-training, which is kept: go on so$"
        ) as told:
            pretrain(config, part, console=quiet, hint="go on so")
    assert told.value.signum == signal.SIGINT
    resumed = pretrain(config, part, console=quiet, resume=True, hint="go on so")
    assert same(finished.state, resumed.state_dict())


def test_a_run_that_was_killed_with_its_configuration_alone_written_is_made_whole(finished, tmp_path, quiet):
    whole, broken = finished.run, RunDirectory(tmp_path / "broken")
    broken.prepare_(whole.config.read_text(), overwrite=False)
    state = pretrain(tiny_config(finished.npz), broken, console=quiet, resume=True)
    assert same(finished.state, state.state_dict())
    for name in ("split.csv", "split.sha256"):
        assert (broken.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_run_that_is_trained_keeps_the_environment_that_did_it(finished, tmp_path, quiet):
    run = RunDirectory(tmp_path / "elsewhere")
    copytree(finished.run.path, run.path)
    run.environment.write_text('{"device": "NVIDIA H200"}')
    config = tiny_config(finished.npz)
    pretrain(config, run, console=quiet, resume=True)
    assert run.environment.read_text() == '{"device": "NVIDIA H200"}'
    run.environment.unlink()
    pretrain(config, run, console=quiet, resume=True)
    assert json.loads(run.environment.read_text())["device"] == "cpu"


def test_hidden_labels_do_not_touch_the_weights(tmp_path, quiet):
    truth = np.arange(48) % 3
    given = np.where(np.arange(48) < 6, truth, -1)
    states, accuracies = [], []
    for i, hidden in enumerate((truth, (truth + 1) % 3)):
        folder = tmp_path / str(i)
        folder.mkdir()
        np.savez(folder / "d.npz", x=stripes(truth), y=given, y_hidden=hidden)
        run = RunDirectory(folder / "run")
        states.append(pretrain(tiny_config(folder / "d.npz"), run, console=quiet).state_dict())
        accuracies.append([row["pseudo/accuracy"] for row in run.read_metrics()])
    assert same(*states)
    assert accuracies[0] != accuracies[1]


def test_a_run_directory_is_complete(finished):
    run = finished.run
    stored = from_yaml(run.config.read_text())
    assert stored.method.negatives == 10
    assert run.split_sha256.read_text().endswith("  split.csv\n")
    assert run.split.read_text().count("unlabelled") == 42
    assert json.loads(run.environment.read_text())["packages"]["torch"]
    assert list(run.path.glob("events.out.tfevents.*"))
    last = run.read_metrics()[-1]
    wanted = {f"loss/{name}" for name in Terms._fields} | {
        *("lr", "target_decay", "epoch", "images_per_second"),
        *("pseudo/accuracy", "pseudo/votes", "pseudo/tie_rate"),
        *("knn/leave_one_out", "features/std", "features/effective_rank"),
    }
    assert wanted <= set(last)


def test_it_learns(tmp_path, quiet):
    truth = np.arange(96) % 4
    np.savez(
        tmp_path / "d.npz",
        x=stripes(truth, noise=40),
        y=np.where(np.arange(96) < 8, truth, -1),
        y_hidden=truth,
    )
    config = tiny_config(
        tmp_path / "d.npz",
        epochs=20.0,
        batch_size=32,
        log_every=10,
        views=replace(tiny_config("").views, small=0, min_area=0.8, flip=0.0, colour=False, solarise=False),
        net=NetConfig(encoder="resnet10", width=0.25, head_hidden=32, head_outputs=16),
        optim=OptimConfig(name="adamw", base_lr=0.03),
        method=MethodConfig(
            positives=2,
            queue_capacity=64,
            queue_initial_labels="none",
            contrast_scale=1.0,
            invariance_scale=1.0,
        ),
    )
    run = RunDirectory(tmp_path / "run")
    pretrain(config, run, console=quiet)
    rows = run.read_metrics()
    assert rows[-1]["loss/augmentation"] < 0.6 * rows[0]["loss/augmentation"]
    assert rows[-1]["pseudo/accuracy"] > 0.9
    assert rows[-1]["knn/leave_one_out"] > 0.9


def spoil_steps(monkeypatch, bad):
    """Steps whose loss is not a number, with the weights as they are after it."""
    real = build.train_step_

    def step(state, batch, **options):
        number, outcome = state.step, real(state, batch, **options)
        total = torch.tensor(torch.nan) if number in bad else outcome.terms.total
        return Outcome(outcome.terms._replace(total=total), outcome.votes)

    monkeypatch.setattr(build, "train_step_", step)


def test_a_loss_that_is_not_a_number_is_left_out_and_counted(npz, tmp_path, capsys, monkeypatch):
    spoil_steps(monkeypatch, {7})
    run = RunDirectory(tmp_path / "run")
    pretrain(tiny_config(npz, epochs=4.0), run, console=Console(markup=False, width=200))
    assert "step 7 was left out: the loss is nan, batch of x[" in capsys.readouterr().out
    assert [row.get("skipped_steps", 0) for row in run.read_metrics()] == [0, 0, 0, 1, 1, 1]
    assert (run.checkpoints / "last").resolve().name == "step-00000012.ckpt"


def test_losses_that_stay_no_numbers_leave_the_good_checkpoint(npz, tmp_path, quiet, monkeypatch):
    spoil_steps(monkeypatch, {3, 4, 5})
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(RunError, match=r"nan at step 5, the 3rd in a row, batch of x\[\d+\], x\["):
        pretrain(tiny_config(npz), run, console=quiet)
    assert (run.checkpoints / "last").resolve().name == "step-00000003.ckpt"
    assert len((run.path / "bad_batch.txt").read_text().splitlines()) == 16
    monkeypatch.undo()
    assert pretrain(tiny_config(npz), run, console=quiet, resume=True).step == 6


def intrude(pipe, npz, out, how):
    try:
        pretrain(tiny_config(npz), RunDirectory(out), console=Console(quiet=True), **{how: True})
    except UserError as error:
        pipe.send(str(error))


def test_two_runs_in_one_folder_the_second_is_refused(finished, tmp_path):
    npz, run = finished.npz, finished.copy(tmp_path)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with run.locked():
        for how in ("resume", "overwrite"):
            mine, theirs = CONTEXT.Pipe(duplex=False)
            other = CONTEXT.Process(target=intrude, args=(theirs, npz, run.path, how))
            other.start()
            assert mine.poll(60)
            assert mine.recv() == (
                f"{run.path} is in use by process {os.getpid()} on {socket.gethostname()}: "
                "wait for it, or choose another --out"
            )
            other.join(10)
    assert before.items() <= {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()}.items()


def test_a_damaged_checkpoint_is_passed_over_with_a_line(finished, tmp_path, capsys):
    run = finished.copy(tmp_path)
    newest = run.checkpoints / "step-00000006.ckpt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    state = pretrain(tiny_config(finished.npz), run, console=Console(width=300), resume=True)
    assert "step-00000006.ckpt is damaged" in (said := capsys.readouterr().out)
    assert "going on with step-00000003.ckpt" in said
    assert same(state.state_dict(), finished.state)
    assert same(load_checkpoint(newest)["state"], finished.state)


def test_resuming_with_another_split_other_images_or_other_values_is_refused(finished, npz, tmp_path, quiet):
    run, config = finished.copy(tmp_path), tiny_config(npz)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    original = dict(np.load(npz))

    def refuse(words, config=config, **changes):
        np.savez(npz, **{**original, **changes})
        with pytest.raises(UserError, match=words):
            pretrain(config, run, console=quiet, resume=True)

    other = original["y"].copy()
    other[6] = 0
    refuse("another split", y=other)
    refuse("images are not those", x=original["x"] ^ 1)
    refuse(r"other values of --seed", replace(config, seed=3))
    refuse(r"--method\.alpha", replace(config, method=replace(config.method, alpha=0.5)))
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def write_masks(place, rows):
    for i in range(48):
        write_mask(place / f"{i:06d}.png", np.arange(8)[:, None] < np.full((1, 8), rows))
    return place


def test_a_run_goes_on_with_its_masks_wherever_they_are_and_with_no_others(npz, tmp_path, quiet):
    run, beside = RunDirectory(tmp_path / "run"), tmp_path / "stripes.npz.masks"
    write_masks(beside, 4)
    first = pretrain(tiny_config(npz), run, console=quiet)
    known = json.loads(run.environment.read_text())["masks_sha256"]
    assert load_checkpoint(newest_checkpoint(run))["masks"] == known is not None

    def resumed(masks=None):
        return pretrain(tiny_config(npz, data=DataConfig(masks=masks)), run, console=quiet, resume=True)

    away = beside.rename(tmp_path / "away")
    assert same(first.state_dict(), resumed(str(away)).state_dict())
    write_masks(beside, np.arange(8))
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=f"^the masks in {beside} are not those that .* was trained with: "):
        resumed()
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
    write_masks(beside, 4)  # made anew, and the same
    assert same(first.state_dict(), resumed().state_dict())


def test_masks_in_the_file_are_compared_pixel_by_pixel(npz, tmp_path, quiet):
    run, original = RunDirectory(tmp_path / "run"), dict(np.load(npz))
    masks = np.ones((48, 8, 8), bool)
    np.savez(npz, **original, masks=masks)
    pretrain(tiny_config(npz), run, console=quiet)
    masks[7, 0, 0] = False
    np.savez(npz, **original, masks=masks)
    with pytest.raises(UserError, match=f"^the masks in {npz} are not those that"):
        pretrain(tiny_config(npz), run, console=quiet, resume=True)


def test_bf16_is_refused_on_a_cpu(npz, tmp_path, quiet):
    with pytest.raises(UserError, match="bf16 is for GPUs"):
        pretrain(
            tiny_config(npz, precision="bf16", device="cpu"), RunDirectory(tmp_path / "r"), console=quiet
        )


def test_resuming_a_finished_run_changes_no_weight(finished, tmp_path, quiet):
    config = tiny_config(finished.npz, log_every=3)
    again = pretrain(config, finished.copy(tmp_path), console=quiet, resume=True)
    assert same(finished.state, again.state_dict())


def test_a_run_may_go_on_in_parts_as_large_as_its_batch_and_not_in_smaller_ones(finished, tmp_path, quiet):
    npz, run = finished.npz, finished.copy(tmp_path)
    state = pretrain(tiny_config(npz, micro_batch=16), run, console=quiet, resume=True)
    assert state.step == 6
    with pytest.raises(UserError, match="--micro-batch"):
        pretrain(tiny_config(npz, micro_batch=8), run, console=quiet, resume=True)


def test_a_run_goes_on_where_its_data_was_moved(npz, tmp_path, quiet):
    run = RunDirectory(tmp_path / "run")
    one = pretrain(tiny_config(npz), run, console=quiet)
    (tmp_path / "elsewhere").mkdir()
    moved = npz.rename(tmp_path / "elsewhere" / "renamed.npz")
    again = pretrain(tiny_config(moved), run, console=quiet, resume=True)
    assert same(one.state_dict(), again.state_dict())


def test_a_new_run_starts_from_the_weights_of_another(finished, tmp_path, quiet):
    npz, one = finished.npz, finished.copy(tmp_path).path
    frozen = tiny_config(npz, seed=7, optim=replace(tiny_config(npz).optim, base_lr=1e-30), epochs=0.4)
    for source in (one, one / "checkpoints" / "last"):
        run = RunDirectory(tmp_path / f"two-{source.name}")
        two = pretrain(frozen, run, console=quiet, init_from=source)
        name = "encoder.layer1.0.conv1.weight"
        assert torch.allclose(two.online.state_dict()[name], finished.state["online"][name])
        assert two.step == 1
        assert json.loads(run.started_from.read_text()) == {
            "path": str(source),
            "step": finished.state["step"],
        }
    assert not RunDirectory(one).started_from.exists()
    shutil.rmtree(run.checkpoints)
    with pytest.raises(UserError, match=r"no checkpoint yet and began with other weights \(see started_from"):
        pretrain(from_yaml(run.config.read_text()), run, console=quiet, resume=True)
    wider = replace(frozen, net=replace(frozen.net, width=0.125))
    with pytest.raises(UserError, match=r"--net.width is 0.125, and the weights of .* need 0.0625"):
        pretrain(wider, RunDirectory(tmp_path / "three"), console=quiet, init_from=one)
    assert not (tmp_path / "three").exists()
    with pytest.raises(UserError, match="start a new one"):
        pretrain(frozen, RunDirectory(one), console=quiet, resume=True, init_from=tmp_path)


def test_with_all_labels_every_image_enters_the_queue_and_nothing_is_voted_on(class_folders, tmp_path, quiet):
    config = tiny_config(
        class_folders,
        data=DataConfig(label_fraction=1.0, workers=0),
        method=MethodConfig(positives=2, queue_capacity=36),
        batch_size=12,
        epochs=1.0,
    )
    run = RunDirectory(tmp_path / "run")
    state = pretrain(config, run, console=quiet)
    assert torch.bincount(state.queue.labels_C).tolist() == [12, 12, 12], "an epoch fills it with all images"
    assert not any("pseudo/accuracy" in row for row in run.read_metrics())


def test_a_transformer_is_trained(npz, tmp_path, quiet):
    config = tiny_config(
        npz, net=NetConfig(encoder="timm:test_vit", head_hidden=16, head_outputs=8), epochs=0.4, batch_size=4
    )
    run = RunDirectory(tmp_path / "run")
    assert pretrain(config, run, console=quiet).step == 4
    stored = load_checkpoint(newest_checkpoint(run))
    assert stored["preprocessing"]["size"] == from_yaml(run.config.read_text()).views.large_size == 16


def pictures(run):
    events = EventAccumulator(str(run.path), size_guidance={"images": 0}).Reload()
    return [event.step for tag in events.Tags()["images"] for event in events.Images(tag)]


def exhibit(run):
    return json.loads((run.path / "exhibit" / "exhibit.json").read_text())


@pytest.mark.parametrize("feed", ["resident", "streaming"])
def test_pictures_change_no_weight(class_folders, tmp_path, quiet, feed):
    data = DataConfig(labels_per_class=5, workers=0, feed=feed)
    states = []
    for every, expected in ((0.0, []), (0.5, [2, 4])):
        run = RunDirectory(tmp_path / str(every))
        config = tiny_config(class_folders, data=data, batch_size=8, sheet_every=every, epochs=1.0)
        states.append(pretrain(config, run, console=quiet).state_dict())
        assert pictures(run) == expected
    assert same(*states)


def test_without_a_queue_there_are_no_pictures_and_the_exhibit_is_without_votes(npz, tmp_path, quiet):
    run = RunDirectory(tmp_path / "run")
    pretrain(tiny_config(npz, method=MethodConfig(positives=0)), run, console=quiet)
    assert pictures(run) == []
    assert exhibit(run)["gallery"] == []


def test_a_picture_that_cannot_be_made_does_not_end_the_run(npz, tmp_path, quiet, monkeypatch):
    def fail(*arguments):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(verb, "positives_sheet", fail)
    run = RunDirectory(tmp_path / "run")
    config = tiny_config(npz, epochs=0.4, sheet_every=0.1)
    assert pretrain(config, run, console=quiet).step == 1
    assert pictures(run) == []
    monkeypatch.undo()
    pretrain(config, run, console=quiet, overwrite=True)
    assert pictures(run) == [1]


def test_a_finished_run_leaves_an_exhibit_and_makes_it_again_when_resumed(npz, tmp_path, quiet, monkeypatch):
    run = RunDirectory(tmp_path / "run")
    with monkeypatch.context() as patch:
        crash_after(patch, 4)
        with pytest.raises(Crash):
            pretrain(tiny_config(npz), run, console=quiet)
    assert not (run.path / "exhibit").exists(), "not before the end"
    pretrain(tiny_config(npz), run, console=quiet, resume=True)
    first = exhibit(run)
    assert first["step"] == 6
    (run.path / "exhibit" / "exhibit.json").unlink()
    pretrain(tiny_config(npz, sheet_every=0.0), run, console=quiet, resume=True)
    assert exhibit(run) == first


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), torch.OutOfMemoryError("full")])
def test_an_exhibit_that_cannot_be_written_is_one_line(npz, tmp_path, capsys, monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(verb, "write_exhibit", fail)
    run = RunDirectory(tmp_path / "run")
    state = pretrain(tiny_config(npz, epochs=0.4), run, console=Console(markup=False, width=300))
    assert state.step == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "exhibit" in line)
    why = getattr(error, "strerror", None) or str(error)
    assert line == f"{run.path / 'exhibit'} could not be written ({why}); the run itself is complete"


def shown_by_the_main_rank(ranks, device, npz, folder):
    states = []
    for every in (0.0, 0.5):
        run = RunDirectory(folder / str(every))
        config = tiny_config(npz, sheet_every=every, device="cpu", epochs=1.0)
        state = pretrain(config, run, console=Console(quiet=True), ranks=ranks, device=device)
        states.append(state.state_dict())
    return same(*states)


def test_of_several_ranks_the_main_one_makes_the_pictures_and_no_other_waits_for_them(npz, tmp_path):
    assert in_ranks(2, shown_by_the_main_rank, str(npz), tmp_path) == [True, True]
    assert pictures(RunDirectory(tmp_path / "0.0")) == []
    assert pictures(RunDirectory(tmp_path / "0.5")) == [2, 3]
    assert exhibit(RunDirectory(tmp_path / "0.0")) == exhibit(RunDirectory(tmp_path / "0.5"))


def test_files_that_went_bad_are_named_at_the_end_each_kind_in_its_own_words():
    lines = []
    bad = {
        "a.png: not a readable image (truncated)",
        "mask m/b.png: 3×3, the image is 4×4: treated as absent",
    }
    feed = SimpleNamespace(close=lambda: None, incidents=[], unreadable=bad)
    verb._end_feed(feed, lines.append)
    assert lines == [
        "a.png: not a readable image (truncated): a grey image stood for it",
        "mask m/b.png: 3×3, the image is 4×4: treated as absent",
    ]


def test_a_folder_without_any_label_is_trained_on_from_files(class_folders, tmp_path, quiet):
    run = RunDirectory(tmp_path / "run")
    config = tiny_config(
        class_folders / "cat",
        data=DataConfig(feed="streaming", workers=0),
        method=MethodConfig(objective="simclr", positives=0),
        batch_size=6,
    )
    pretrain(config, run, console=quiet)
    last = json.loads(run.metrics.read_text().splitlines()[-1])
    assert last["step"] == 4
    assert "features/std" in last
    assert "knn/leave_one_out" not in last, "nobody could be asked"
