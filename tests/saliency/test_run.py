import csv
import errno
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from tests.saliency.stubs import Network, save, square_image, use_brightness

from semppl.cli import main
from semppl.data.masks import read_mask, write_mask
from semppl.saliency import making, run

SHARES = {"sub/half.png": 0.5, "most.png": 0.75, "column.png": 0.5, "grey.png": 0.25, "white.png": 1.0}


@pytest.fixture
def calls(monkeypatch):
    return use_brightness(monkeypatch)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Five images and a file that is none; commands run beside the folder."""
    root = tmp_path / "photos"
    save(root / "sub" / "half.png", square_image(40, 30))
    save(root / "most.png", square_image(300, 200, share=0.75))
    save(root / "column.png", square_image(64, 1))
    (root / "grey.png").parent.mkdir(exist_ok=True)
    Image.fromarray(square_image(16, 16, share=0.25)[..., 0]).save(root / "grey.png")
    save(root / "white.png", square_image(9, 9, share=1))
    (root / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    monkeypatch.chdir(tmp_path)
    return root


def call(capsys, *arguments):
    """Exit status, and what was said on both streams."""
    with pytest.raises(SystemExit) as caught:
        main(["masks", *(str(argument) for argument in arguments)])
    said = capsys.readouterr()
    return caught.value.code, said.out + said.err


def shares(place):
    names = {path.relative_to(place / "masks").as_posix(): path for path in (place / "masks").rglob("*.png")}
    return {name.removesuffix(".png"): read_mask(str(path)).mean() for name, path in names.items()}


def test_masks_are_made_named_counted_and_shown(data, tmp_path, capsys, calls):
    status, said = call(capsys, "photos")
    place = tmp_path / "photos.masks"
    assert status == 0, said
    assert shares(place) == SHARES
    assert "no mask for 1 of 6 images: broken.jpg (not a readable image" in said
    assert "5 masks in" in said
    assert "5 of 5 have at least 20 %" in said
    assert said.splitlines()[-1].startswith("training uses them by default: semppl fit photos")
    record = json.loads((place / "masks.json").read_text())
    assert (record["images"], record["masks"], record["unreadable"]) == (6, 5, 1)
    assert record["foreground_mean"] == pytest.approx(np.mean(list(SHARES.values())))
    assert record["settings"]["sources"] == ["bright", "dark"]
    with (place / "bad_files.csv").open() as file:
        assert [row["path"] for row in csv.DictReader(file)] == ["broken.jpg"]
    with Image.open(place / "sheet.jpg") as sheet:
        assert sheet.format == "JPEG"
        assert sheet.width == 8 + 6 * 168
    # a second time there is nothing to do
    calls.clear()
    status, said = call(capsys, "photos", "--sheet", 0)
    assert (status, calls) == (0, [])
    assert "0 made; 5 were there" in said


def test_a_mended_file_is_no_longer_named(data, tmp_path, capsys, calls):
    call(capsys, "photos", "--sheet", 0)
    save(data / "broken.jpg", square_image(8, 8))
    status, said = call(capsys, "photos", "--sheet", 0)
    assert (status, "no mask" in said) == (0, False)
    assert not (tmp_path / "photos.masks" / "bad_files.csv").exists()


def test_other_settings_need_overwrite_which_makes_all_anew(data, tmp_path, capsys, calls):
    place = tmp_path / "elsewhere"
    assert call(capsys, "photos", "--out", place, "--refine", "off", "--sheet", 0)[0] == 0
    (place / "notes.txt").write_text("mine")
    status, said = call(capsys, "photos", "--out", place, "--refine", "on")
    assert status == 2
    assert "elsewhere was made with fused masks" in said
    assert "--overwrite" in said
    calls.clear()
    status, said = call(capsys, "photos", "--out", place, "--refine", "off", "--sheet", 0, "--overwrite")
    assert (status, len(calls)) == (0, 5)
    assert f"semppl fit photos --masks {place}" in " ".join(said.split())
    assert (place / "notes.txt").read_text() == "mine"


def test_a_folder_of_somebody_else_is_left_alone(data, tmp_path, capsys, calls):
    for flags in ([], ["--overwrite"]):
        status, said = call(capsys, "photos", "--out", data, *flags)
        assert status == 2
        assert "holds something else" in said
    assert len(list(data.rglob("*.*"))) == 6


def test_a_network_learns_and_is_used_for_what_comes_later(data, tmp_path, capsys, calls):
    place = tmp_path / "photos.masks"
    status, said = call(
        capsys, "photos", "--refine", "on", "--device", "cpu", "--train-images", 4, "--seed", 3
    )
    assert status == 0, said
    assert ("trained", 4 - 1, 3, place / "work" / "training") in calls  # the broken one is among them
    assert shares(place).keys() == SHARES.keys()
    assert shares(place)["most.png"] == pytest.approx(0.75, abs=0.03)
    with Image.open(place / "sheet.jpg") as sheet:
        assert sheet.width == 8 + 7 * 168
    save(data / "later.png", square_image(32, 32))
    calls.clear()
    before = Network.loads
    # auto goes on as the masks began
    status, said = call(capsys, "photos", "--sheet", 0)
    assert (status, calls, Network.loads) == (0, [], before + 1)
    assert "1 made" in said
    assert "network that is there already (--train-images 4, --seed 3) makes" in " ".join(said.split())
    assert shares(place)["later.png"] == 0.5
    # of the network that is there, whatever this command says
    record = json.loads((place / "masks.json").read_text())
    assert (record["network"], record["masks"]) == ({"train_images": 4, "seed": 3}, 6)
    assert "already" not in call(capsys, "photos", "--sheet", 0, "--train-images", 4, "--seed", 3)[1]


def test_auto_refines_where_there_is_a_gpu_and_enough_to_learn_from(tmp_path, calls):
    place = run.Place(tmp_path)
    enough = run.ENOUGH_TO_LEARN
    for device, refine, images, expected in (
        ("cuda", "auto", enough, True),
        ("cuda", "auto", enough - 1, False),
        ("cuda", "off", enough, False),
        ("cpu", "auto", enough, False),
        ("cpu", "on", 2, True),
    ):
        flags = run.MasksFlags(refine=refine)
        assert run._settings(place, flags, torch.device(device), images)["refined"] is expected


def test_scores_are_shown_and_kept(data, tmp_path, capsys, calls):
    write_mask(tmp_path / "truth" / "most.png", square_image(300, 200, share=0.75)[..., 0] > 127)
    write_mask(tmp_path / "truth" / "sub" / "half.png", square_image(40, 30)[..., 0] > 127)
    status, said = call(capsys, "photos", "--truth", tmp_path / "truth", "--sheet", 0)
    assert status == 0, said
    assert "2 images against" in said
    scores = json.loads((tmp_path / "photos.masks" / "scores.json").read_text())["maps"]
    assert scores["fused"]["f"] == pytest.approx(1)
    assert set(scores) > {"bright", "dark", "fused", "centre prior"}


def test_arrays_and_digits_have_masks_too(tmp_path, capsys, calls, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.stack([square_image(8, 8, share=i / 4) for i in range(5)]))
    assert call(capsys, "x.npz", "--sheet", 2)[0] == 0
    assert shares(tmp_path / "x.npz.masks") == {f"{i:06d}": i / 4 for i in range(5)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which images, before any flag: semppl masks DATA"),
        (["nowhere"], "nowhere: no such data"),
        (["photos", "--sheet", "-1"], "--sheet is -1"),
        (["photos", "--device", "abacus"], "unknown device 'abacus'"),
        (["photos", "--truth", "none"], "--truth none: no such folder"),
        (["photos", "--refine", "maybe"], "maybe"),
        (["photos", "--out", "photos/most.png"], "is a file"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_writes_nothing(arguments, words, data, tmp_path, capsys, calls):
    before = sorted(tmp_path.rglob("*"))
    status, said = call(capsys, *arguments)
    assert (status, said.count("\n")) == (2, 1)
    assert words in said
    assert sorted(tmp_path.rglob("*")) == before


def test_if_no_image_can_be_read_the_status_is_2(tmp_path, capsys, calls):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"no")
    status, said = call(capsys, tmp_path / "photos")
    assert status == 2
    assert "no image could be read" in said


def test_two_at_once_are_refused(data, tmp_path, capsys, calls, monkeypatch):
    call(capsys, "photos", "--sheet", 0)
    monkeypatch.setattr("semppl.core.lock._acquired", lambda file: None)
    status, said = call(capsys, "photos")
    assert status == 2
    assert "is in use by" in said


def test_a_full_disk_is_one_line_and_what_is_done_is_kept(data, tmp_path, capsys, calls, monkeypatch):
    def write(path, mask_HW):
        if path.name == "most.png.png":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_mask(path, mask_HW)

    monkeypatch.setattr(run, "_ESTIMATED", 1)
    with monkeypatch.context() as patch:
        patch.setattr(making, "write_mask", write)
        status, said = call(capsys, "photos", "--sheet", 0)
    assert status == 1
    assert said.splitlines()[-1].startswith("semppl: cannot write to")
    assert "No space left on device" in said
    status, said = call(capsys, "photos", "--sheet", 0)
    assert "3 made" in said
    assert "2 were there" in said


def test_a_fifth_of_an_image_is_enough_foreground(tmp_path, capsys, calls):
    save(tmp_path / "data" / "a.png", square_image(160, 128, share=0.2))
    save(tmp_path / "data" / "b.png", square_image(160, 128, share=0.19))
    assert "1 of 2 have at least 20 %" in call(capsys, tmp_path / "data", "--sheet", 0)[1]


def test_training_must_be_told_of_masks_where_a_file_has_its_own(tmp_path, capsys, calls):
    path, image = tmp_path / "x.npz", square_image(8, 8)
    np.savez(path, x=image[None], y=np.array([0]), masks=np.ones((1, 8, 8), bool))
    status, said = call(capsys, path, "--sheet", 0)
    assert status == 0, said
    assert f"when it is told: semppl fit {path} --masks {path}.masks" in " ".join(said.split())


def test_real_estimators_in_processes_of_their_own(tmp_path, capsys):
    image = np.full((48, 64, 3), (40, 90, 160), np.uint8)
    image[14:36, 20:44] = (230, 60, 20)
    root = tmp_path / "photos"
    for i in range(7):
        save(root / f"{i}.png", np.roll(image, i, axis=1))
    save(root / "line.png", square_image(60, 1))
    status, said = call(capsys, root, "--workers", 2, "--sheet", 2)
    assert status == 0, said
    place = tmp_path / "photos.masks"
    found = [read_mask(str(place / "masks" / f"{i}.png.png")) for i in range(7)]
    truth = [np.roll(image, i, axis=1)[..., 0] > 200 for i in range(7)]
    overlap = [(a & b).sum() / (a | b).sum() for a, b in zip(found, truth, strict=True)]
    assert min(overlap) > 0.8
    shutil.move(root / "3.png", root / "moved.png")
    status, said = call(capsys, root, "--workers", 2, "--sheet", 0)
    assert "7 were there; 1 taken from equal images" in said


def test_a_folder_of_truth_without_any_is_refused_before_a_mask_is_made(data, tmp_path, capsys, calls):
    (tmp_path / "truth").mkdir()
    status, said = call(capsys, "photos", "--truth", tmp_path / "truth")
    assert status == 2
    assert "no mask has the name of an image" in said
    assert not (tmp_path / "photos.masks").exists()
    assert not calls
