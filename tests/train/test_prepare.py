from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.conftest import damage, stripes, tiny_config
from tests.train.world import in_ranks

from semppl.config import Config, DataConfig, NetConfig, SaliencyConfig, from_yaml, to_yaml
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.data.masks import write_mask
from semppl.train import prepare
from semppl.train.prepare import load_for, prepared_for, require_same_everywhere, resolved_for
from semppl.train.pretrain import pretrain
from semppl.train.ranks import ALONE

CPU = torch.device("cpu")


def test_an_encoder_of_timm_sees_what_it_can_see(npz):
    dataset = load_for(tiny_config(npz), torch.device("cpu"))
    assert resolved_for(tiny_config(npz), dataset).views.large_size == 8
    vit = tiny_config(npz, net=NetConfig(encoder="timm:vit_tiny_patch16_224"))
    views = resolved_for(vit, dataset).views
    assert (views.large_size, views.small_size) == (16, 16)
    own = replace(vit, net=replace(vit.net, pretrained=True))
    views = resolved_for(own, dataset).views
    assert (views.large_size, views.small_size) == (224, 96)


def test_what_a_run_starts_from_is_read_and_filled_in(npz, tmp_path, quiet):
    given = (tiny_config(npz), RunDirectory(tmp_path), torch.device("cpu"), quiet, None, None, ALONE)
    found = prepared_for(*given, resume=False)
    assert found.config.method.negatives == 10
    assert len(found.dataset.labels_M) == 48
    assert found.start is None
    assert set(found.facts) == {"config", "split", "data", "masks"}
    assert found.facts["masks"] is None
    assert found.table.count("unlabelled") == 42


@pytest.mark.parametrize("memory", [2**30, 0])
def test_a_run_goes_on_without_the_files_that_it_left_out_whatever_is_read_now(
    class_folders, tmp_path, quiet, monkeypatch, memory
):
    for name in ("cat/003.png", "dog/001.png"):
        damage(class_folders / name)
    data = DataConfig(label_fraction=0.5, workers=0, allow_unreadable=True)
    config, run = tiny_config(class_folders, data=data), RunDirectory(tmp_path / "run")
    monkeypatch.setattr(prepare, "memory_for_pixels", lambda _: memory)
    pretrain(config, run, console=quiet)
    left_out = {bad.path for bad in load_for(config, CPU).bad}
    assert (left_out == {"cat/003.png", "dog/001.png"}) == bool(memory)
    for now in (2**30, 0):
        monkeypatch.setattr(prepare, "memory_for_pixels", lambda _, now=now: now)
        assert {bad.path for bad in load_for(config, CPU, run=run).bad} == left_out
        found = prepared_for(config, run, CPU, quiet, None, None, ALONE, resume=True)
        assert found.facts["split"] == run.split_sha256.read_text().split()[0]
    run.bad_files.write_text("this,that\n1,2\n")
    with pytest.raises(UserError, match=r"bad_files.csv: not a table of path,reason any more"):
        load_for(config, CPU, run=run)


def compared(ranks, device, facts):
    try:
        ranks.together(lambda: require_same_everywhere(ranks, facts[ranks.share.rank]))
    except (UserError, RunError) as error:
        return f"{type(error).__name__}: {error}"
    return "fine"


def test_machines_that_see_other_files_do_not_begin():
    config = Config(source="/a/b.npz", seed=3)
    one = {"config": to_yaml(config), "split": "s", "data": "d", "masks": None}
    moved = one | {"config": to_yaml(replace(config, source="/elsewhere/b.npz", device="cuda:1"))}
    assert in_ranks(2, compared, [one, moved]) == ["fine", "fine"]
    for other, what in (
        (one | {"data": "x"}, "images"),
        (one | {"masks": "x"}, "masks"),
        (one | {"config": to_yaml(replace(config, seed=4))}, "seed"),
    ):
        main, second = in_ranks(2, compared, [one, other])
        assert main.startswith("Elsewhere")
        assert second.startswith(f"RunError: rank 1 differs from the main one in {what}: all machines must")


@pytest.fixture
def beside(npz):
    """Masks where they are looked for."""
    place = npz.with_name("stripes.npz.masks")
    for i in range(48):
        write_mask(place / f"{i:06d}.png", np.arange(64).reshape(8, 8) < 32)
    return place


def started(config, path, quiet, **options):
    """A run directory as pre-training leaves it, and what it was made from."""
    run = RunDirectory(path)
    found = prepared_for(config, run, CPU, quiet, None, None, ALONE, resume=False, **options)
    run.prepare_(found.facts["config"], overwrite=False)
    return run, found


def again(run, quiet, **data):
    """As --resume reads it; some flags may be given."""
    stored = from_yaml(run.config.read_text())
    config = replace(stored, data=replace(stored.data, **data))
    return prepared_for(config, run, CPU, quiet, None, None, ALONE, resume=True)


def test_a_run_keeps_whose_masks_it_uses(npz, beside, tmp_path, quiet, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, kept in ((None, str(beside)), ("none", "none"), (beside.name, str(beside)), ("own", "own")):
        found = prepared_for(
            tiny_config(npz, data=DataConfig(masks=given)),
            RunDirectory(tmp_path / "run"), CPU, quiet, None, None, ALONE, resume=False,
        )  # fmt: skip
        assert found.config.data.masks == kept
        assert (found.dataset.masks_MHW is None) is (kept in ("none", "own"))
        assert (found.facts["masks"] is None) is (kept in ("none", "own"))


def test_masks_in_the_file_are_called_its_own(tmp_path, quiet):
    truth = np.arange(48) % 3
    masks = np.random.default_rng(0).random((48, 8, 8)) < 0.5
    np.savez(tmp_path / "d.npz", x=stripes(truth), y=truth, masks=masks)
    run, found = started(tiny_config(tmp_path / "d.npz"), tmp_path / "run", quiet)
    assert found.config.data.masks == "own"
    assert np.array_equal(again(run, quiet).dataset.masks_MHW.numpy(), masks)
    with pytest.raises(UserError, match=r"other values of --data\.masks"):
        again(run, quiet, masks="none")


def test_with_probability_zero_masks_are_not_looked_for(npz, beside, tmp_path, quiet):
    off = SaliencyConfig(probability=0.0)
    for given in (None, str(tmp_path / "gone")):
        config = tiny_config(npz, data=DataConfig(masks=given), saliency=off)
        dataset = load_for(config, CPU)
        assert dataset.masks_MHW is dataset.masks_place is None
        assert resolved_for(config, dataset).data.masks == (given or "none")


def test_a_run_goes_on_with_its_masks_or_not_at_all(npz, beside, tmp_path, quiet):
    run, _ = started(tiny_config(npz), tmp_path / "run", quiet)
    assert again(run, quiet).dataset.masks_MHW is not None
    moved = beside.rename(tmp_path / "moved")
    with pytest.raises(UserError, match=r"--masks .*stripes\.npz\.masks: no such folder") as caught:
        again(run, quiet)
    assert "\n" not in str(caught.value)
    assert again(run, quiet, masks=str(moved)).dataset.masks_MHW is not None
    with pytest.raises(UserError, match=r"other values of --data\.masks"):
        again(run, quiet, masks="none")


def test_masks_that_come_later_are_not_for_a_run_that_began_without(npz, beside, tmp_path, quiet):
    away = beside.rename(tmp_path / "away")
    run, found = started(tiny_config(npz), tmp_path / "run", quiet)
    assert found.config.data.masks == "none"
    away.rename(beside)
    assert again(run, quiet).dataset.masks_MHW is None
    # a caller that gives the flags once more instead of what was stored
    assert again(run, quiet, masks=None).dataset.masks_MHW is None


@pytest.mark.parametrize("later", [False, True])
def test_a_run_of_an_older_version_goes_on_as_it_was(npz, beside, tmp_path, quiet, later):
    if not later:
        beside.rename(tmp_path / "away")
    run, _ = started(tiny_config(npz, data=DataConfig(masks="own")), tmp_path / "run", quiet)
    lines = run.config.read_text().splitlines(keepends=True)
    run.config.write_text("".join(line for line in lines if not line.startswith("  masks:")))
    for given in ({}, {"masks": None}):
        assert again(run, quiet, **given).dataset.masks_MHW is None


def test_who_only_looks_at_a_run_needs_no_masks(npz, beside, tmp_path):
    for masks in (None, str(beside), str(tmp_path / "gone")):
        dataset = load_for(tiny_config(npz, data=DataConfig(masks=masks)), CPU, masks=False)
        assert dataset.masks_MHW is dataset.masks_place is None
        assert not dataset.notes
