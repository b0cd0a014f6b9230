import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.conftest import damage

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data import source
from semppl.data.images import ImageFiles
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.data.torchvision import Named


def test_withheld_labels_become_hidden_truth_and_nothing_else():
    full, data = (
        load_dataset(Request(source="digits")),
        load_dataset(Request(source="digits", labels_per_class=3, seed=1)),
    )
    assert len(data.labelled_L) == 30
    assert data.oracle_M is None
    assert data.hidden is not None
    index = torch.arange(len(full.labels_M))
    table = data.hidden.agreement(index, full.labels_M, torch.zeros_like(index), 1)
    assert table.tolist() == [[1437, 1437]]


def test_the_oracle_alone_reveals_them():
    data = load_dataset(Request(source="digits", labels_per_class=3, oracle=True))
    assert data.oracle_M is not None
    assert torch.equal(data.oracle_M, load_dataset(Request(source="digits")).labels_M)
    assert (data.labels_M == UNLABELLED).sum() == 1437 - 30


def test_a_class_without_label_is_named(tmp_path):
    path = tmp_path / "gap.npz"
    images = np.zeros((3, 2, 2), dtype=np.uint8)
    np.savez(path, x=images, y=np.array([0, 2, -1]))
    with pytest.raises(UserError, match=r"class '1' has no label"):
        load_dataset(Request(source=str(path)))
    np.savez(path, x=images, y=np.array([0, 1, -1]), classes=np.array(["ant", "bee", "cow"]))
    with pytest.raises(UserError, match=r"class 'cow' has no label"):
        load_dataset(Request(source=str(path)))


def test_data_without_labels_is_refused_unless_none_are_needed(tmp_path):
    path = tmp_path / "bare.npz"
    np.savez(path, x=np.zeros((3, 2, 2), dtype=np.uint8))
    with pytest.raises(UserError, match="no image has a label"):
        load_dataset(Request(source=str(path)))
    assert len(load_dataset(Request(source=str(path), require_labels=False)).labels_M) == 3


def test_other_things_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match="no such data"):
        load_dataset(Request(source="cat_pictures"))
    (tmp_path / "notes.txt").write_text("no images")
    with pytest.raises(UserError, match="not a data set this version reads"):
        load_dataset(Request(source=str(tmp_path / "notes.txt")))


def test_a_file_with_hidden_truth_has_nothing_to_withhold(npz):
    with pytest.raises(UserError, match="y_hidden already"):
        load_dataset(Request(source=str(npz), labels_per_class=1))
    with pytest.raises(UserError, match="labels per class"):
        load_dataset(Request(source=str(npz), oracle=True))


def truth_of(names):
    return torch.tensor([("cat", "dog", "owl").index(name.split("/")[0]) for name in names])


def test_class_folders_with_few_labels_kept(class_folders):
    data = load_dataset(Request(source=str(class_folders), labels_per_class=2, seed=3))
    assert data.classes == ("cat", "dog", "owl")
    assert data.images.shape == (36, 3, 8, 8)
    assert len(data.labelled_L) == 6
    truth = truth_of(data.names)
    assert torch.equal(data.labels_M[data.labelled_L], truth[data.labelled_L])
    table = data.hidden.agreement(torch.arange(36), truth, torch.zeros(36, dtype=torch.long), 1)
    assert table.tolist() == [[36, 36]]


def test_a_fraction_keeps_at_least_one_of_each_class(class_folders):
    data = load_dataset(Request(source=str(class_folders), label_fraction=0.01))
    assert torch.bincount(data.labels_M[data.labelled_L]).tolist() == [1, 1, 1]
    with pytest.raises(UserError, match="give one of them"):
        load_dataset(Request(source=str(class_folders), label_fraction=0.5, labels_per_class=1))


def test_validation_labels_leave_training_and_stay_known(class_folders):
    data = load_dataset(Request(source=str(class_folders), label_fraction=0.5, validation=0.34))
    assert len(data.labelled_L) == 12
    assert len(data.validation_V) == 6
    assert (data.labels_M[data.validation_V] == UNLABELLED).all()
    assert torch.equal(data.held_out_M[data.validation_V], truth_of(data.names)[data.validation_V])


def test_classes_with_too_few_labels_for_validation_are_named(class_folders):
    data = load_dataset(Request(source=str(class_folders), labels_per_class=2, validation=0.2))
    assert len(data.validation_V) == 0
    assert data.notes == ("too few labels to set one aside for validation: cat, dog, owl",)


def test_images_of_several_sizes_are_streamed(class_folders):
    resident = load_dataset(Request(source=str(class_folders), labels_per_class=1))
    assert isinstance(resident.images, torch.Tensor)
    asked = load_dataset(Request(source=str(class_folders), labels_per_class=1, feed="streaming"))
    assert isinstance(asked.images, ImageFiles)
    tight = load_dataset(Request(source=str(class_folders), labels_per_class=1, memory=100))
    assert isinstance(tight.images, ImageFiles)
    Image.new("RGB", (5, 9)).save(class_folders / "cat" / "odd.png")
    mixed = load_dataset(Request(source=str(class_folders), labels_per_class=1))
    assert isinstance(mixed.images, ImageFiles)
    assert mixed.size == 8
    with pytest.raises(UserError, match=r"--feed resident: .* different sizes"):
        load_dataset(Request(source=str(class_folders), labels_per_class=1, feed="resident"))


def test_a_list_of_names_chooses_the_labels(class_folders, tmp_path):
    for path in class_folders.rglob("*.png"):
        path.rename(path.with_name(f"{path.parent.name}_{path.name}"))
    names = [f"{name}_{i:03d}.png" for name in ("cat", "dog", "owl") for i in (0, 5)]
    (tmp_path / "list.txt").write_text("\n".join(names))
    data = load_dataset(Request(source=str(class_folders), labels=str(tmp_path / "list.txt")))
    assert sorted(data.names[i].split("/")[1] for i in data.labelled_L.tolist()) == sorted(names)
    assert "not the official" in data.notes[0]


def test_a_torchvision_set_by_name(monkeypatch, tmp_path):
    named = Named(
        classes=("a", "b"),
        images=torch.arange(4 * 3 * 4, dtype=torch.uint8).view(4, 3, 2, 2),
        labels_M=torch.tensor([0, 1, 0, -1]),
        test_images=None,
        test_labels_T=None,
    )
    monkeypatch.setattr(source, "load_torchvision", lambda name, root: named if root == tmp_path else None)
    data = load_dataset(Request(source="cifar10", root=str(tmp_path)))
    assert (data.name, data.names[3], data.labels_M.tolist()) == ("CIFAR10", "CIFAR10:3", [0, 1, 0, -1])


@pytest.mark.parametrize("option", [{"labels": "mine.csv"}, {"test": "exam"}])
def test_tables_are_for_folders(npz, option):
    for source_ in (str(npz), "digits", "CIFAR10"):
        with pytest.raises(UserError, match=r"is for folders of images"):
            load_dataset(Request(source=source_, **option))


def test_files_of_torchvision_may_be_moved(monkeypatch, class_folders):
    paths = sorted(str(path) for path in class_folders.rglob("*.png"))
    named = Named(("cat", "dog", "owl"), paths, torch.arange(36) // 12, None, None)
    monkeypatch.setattr(source, "load_torchvision", lambda *_: named)
    data = load_dataset(Request(source="EuroSAT"))
    assert data.names[0] == "cat/000.png"
    assert data.images.path(0) == paths[0]


def test_a_class_whose_only_label_was_dropped_comes_with_the_reason(class_folders, tmp_path):
    shutil.copy(class_folders / "cat" / "003.png", class_folders / "dog" / "copy.png")
    table = tmp_path / "labels.csv"
    table.write_text("path,label\ncat/001.png,cat\ncat/003.png,cat\ndog/copy.png,dog\n")
    words = r"class 'dog' has no label: .* \(equal images with different labels.* dog/copy\.png \(dog\)\)$"
    with pytest.raises(UserError, match=words):
        load_dataset(Request(source=str(class_folders), labels=str(table)))


def test_a_file_damaged_in_the_middle_is_left_out_and_named(class_folders):
    request = Request(source=str(class_folders), labels_per_class=4)
    assert len(load_dataset(request).names) == 36
    damage(class_folders / "cat" / "003.png")
    data = load_dataset(request)
    assert len(data.images) == len(data.labels_M) == len(data.names) == 35
    assert "cat/003.png" not in data.names
    assert [bad.path for bad in data.bad] == ["cat/003.png"]
    assert data.bad[0].reason not in ("", "truncated")
    assert data.notes == ()


def test_files_damaged_in_the_middle_count_among_those_that_stop_it(class_folders):
    for name in ("003.png", "007.png"):  # 2 of 36
        damage(class_folders / "cat" / name)
    request = Request(source=str(class_folders), labels_per_class=1)
    with pytest.raises(UserError, match=r"2 of 36 images cannot be read: cat/003.png \(.*--allow-unreadable"):
        load_dataset(request)
    assert len(load_dataset(replace(request, allow_unreadable=True)).names) == 34


def test_a_test_image_damaged_in_the_middle_is_left_out_too(class_folders, tmp_path):
    shutil.copytree(class_folders, tmp_path / "exam")
    for file in (tmp_path / "exam").rglob("*.png"):  # not the images of the training
        Image.fromarray(255 - np.asarray(Image.open(file))).save(file)
    damage(tmp_path / "exam" / "dog" / "001.png")
    request = Request(source=str(class_folders), labels_per_class=1, test=str(tmp_path / "exam"))
    data = load_dataset(request)
    assert (len(data.names), len(data.test_names), len(data.test_labels_T)) == (36, 35, 35)
    assert "exam/dog/001.png" not in data.test_names


def test_of_files_that_are_not_kept_in_memory_those_with_a_label_are_tried(class_folders, tmp_path):
    for name in ("cat/003.png", "dog/001.png"):
        damage(class_folders / name)
    table = tmp_path / "labels.csv"
    table.write_text("path,label\ncat/001.png,a\ndog/002.png,b\nowl/001.png,a\ndog/001.png,b\n")
    request = Request(source=str(class_folders), labels=str(table), feed="streaming")
    data = load_dataset(request)
    assert "dog/001.png" not in data.names
    assert "cat/003.png" in data.names  # nobody has read it yet
    assert len(data.labelled_L) == 3


def test_of_files_that_are_not_kept_in_memory_those_of_validation_and_test_are_tried(class_folders, tmp_path):
    rows = [f"{folder}/{i:03d}.png,{folder}\n" for folder in ("cat", "dog") for i in range(5)]
    exam = ["owl/001.png,cat\n", "owl/002.png,dog\n", "owl/003.png,dog\n"]
    for name, part in (("labels", rows), ("test", exam)):
        (tmp_path / f"{name}.csv").write_text("path,label\n" + "".join(part))
    request = Request(
        source=str(class_folders),
        labels=str(tmp_path / "labels.csv"),
        test=str(tmp_path / "test.csv"),
        feed="streaming",
        validation=0.2,
        allow_unreadable=True,
    )
    before = load_dataset(request)
    held_out = before.names[int(before.validation_V[0])]
    for name in (held_out, "owl/002.png"):
        damage(class_folders / name)
    data = load_dataset(request)
    assert (len(before.test_names), list(data.test_names)) == (3, ["owl/001.png", "owl/003.png"])
    assert sorted(bad.path for bad in data.bad) == sorted([held_out, "owl/002.png"])
    assert held_out not in data.names


def test_a_folder_without_labels_streams(class_folders):
    request = Request(source=str(class_folders / "cat"), feed="streaming", require_labels=False)
    assert len(load_dataset(request).names) == 12


@pytest.mark.parametrize("feed", ["streaming", "resident"])
def test_what_is_known_to_be_left_out_is_and_nothing_else(class_folders, feed):
    for name in ("cat/003.png", "dog/001.png"):
        damage(class_folders / name)
    request = Request(source=str(class_folders), label_fraction=1.0, feed=feed, allow_unreadable=True)
    assert len(load_dataset(request).names) == 34
    data = load_dataset(replace(request, damaged={"dog/001.png": "known", "owl/001.png": "sound by now"}))
    assert [(bad.path, bad.reason) for bad in data.bad] == [
        ("dog/001.png", "known"),
        ("owl/001.png", "sound by now"),
    ]
    assert len(data.names) == 34
    assert any("cat/003.png" in note and "grey" in note for note in data.notes) == (feed == "resident")
    assert [*data.unreadable] == (["cat/003.png"] if feed == "resident" else [])
    assert len(load_dataset(replace(request, damaged={})).names) == 36


def test_a_damaged_file_of_torchvision_is_grey_and_named(monkeypatch, class_folders):
    damage(class_folders / "cat" / "003.png")
    paths = sorted(str(path) for path in class_folders.rglob("*.png"))
    named = Named(("cat", "dog", "owl"), paths, torch.arange(36) // 12, None, None)
    monkeypatch.setattr(source, "load_torchvision", lambda *_: named)
    data = load_dataset(Request(source="EuroSAT"))
    assert len(data.names) == 36
    (note,) = data.notes
    assert note.endswith("a grey image stands for it")


@pytest.mark.parametrize("flag", ["labels", "test"])
def test_a_folder_that_is_mistyped_is_what_is_said_not_its_table(tmp_path, flag):
    request = Request(source=str(tmp_path / "fotos"), **{flag: str(tmp_path / "labels.csv")})
    with pytest.raises(UserError, match="fotos: no such data: give a folder of images"):
        load_dataset(request)
    (tmp_path / "fotos").write_text("notes")
    with pytest.raises(UserError, match="fotos: not a data set this version reads"):
        load_dataset(request)


@pytest.mark.parametrize("source", ["digits", "images.npz", "CIFAR10"])
def test_what_brings_its_own_labels_takes_no_table(source):
    with pytest.raises(UserError, match=f"--labels labels.csv is for folders of images: {source}"):
        load_dataset(Request(source=source, labels="labels.csv"))


def test_labels_of_the_test_alone_are_called_that(class_folders, tmp_path):
    table = tmp_path / "labels.csv"
    names = [f"{name}/{file.name}" for name in ("cat", "dog") for file in (class_folders / name).iterdir()]
    table.write_text("path,label\n" + "".join(f"{name},{name[:3]}\n" for name in names))
    request = Request(source=str(class_folders), labels=str(table), test=str(table), require_labels=True)
    with pytest.raises(
        UserError, match=r"no training image has a label \(in an npz file: y\): those of the test"
    ):
        load_dataset(request)
