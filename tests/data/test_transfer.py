"""torchvision itself reads small sets laid out as it expects them; only its checksums are passed over."""

import io
import json
import pickle
import urllib.request
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image
from torchvision import datasets

from semppl.core.errors import UserError
from semppl.data.image import read_image
from semppl.data.images import ImageFiles
from semppl.data.transfer import TRANSFER_NAMES, load_transfer

CLASSES = ("ant", "bee")
TRAIN, TEST = 10, 3
"""Images of each class."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("no network here")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


def picture():
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (10, 200, 30)).save(buffer, "JPEG")
    return buffer.getvalue()


JPEG = picture()


def write(path, content=JPEG):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def numbered(part, count):
    return [f"{name}/{part}{i}" for name in CLASSES for i in range(count)]


def food(root, monkeypatch):
    for part, count in (("train", TRAIN), ("test", TEST)):
        names = {name: [f"{name}/{part}{i}" for i in range(count)] for name in CLASSES}
        write(root / f"food-101/meta/{part}.json", json.dumps(names))
        for name in numbered(part, count):
            write(root / f"food-101/images/{name}.jpg")


def cifar(name, key):
    def build(root, monkeypatch):
        monkeypatch.setattr(datasets.cifar, "check_integrity", lambda *args: True)
        kind = getattr(datasets, name)
        folder, rng = root / kind.base_folder, np.random.default_rng(0)
        for files, count in ((kind.train_list, TRAIN), (kind.test_list, TEST)):
            for i, (file, _) in enumerate(files):
                labels = [0, 1] * count if i == 0 else []
                x = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
                write(folder / file, pickle.dumps({"data": x, key: labels}))
        write(folder / kind.meta["filename"], pickle.dumps({kind.meta["key"]: list(CLASSES)}))

    return build


def birdsnap(root, monkeypatch):
    for part, count in (("train", TRAIN), ("test", TEST)):
        for name in CLASSES:
            for i in range(count):
                write(root / f"birdsnap/{part}/{name}/{i}.jpg")


def sun(root, monkeypatch):
    write(root / "SUN397/ClassName.txt", "/a/ant\n/b/bee/indoor\n")
    folders = ("/a/ant", "/b/bee/indoor")
    for part, count in (("Training", TRAIN), ("Testing", TEST), ("Unused", 2)):
        names = [f"{folder}/sun_{part}{i}.jpg" for folder in folders for i in range(count)]
        for name in names:
            write(root / f"SUN397{name}")
        if part != "Unused":
            write(root / f"SUN397/{part}_01.txt", "\n".join(names) + "\n")


def cars(root, monkeypatch):
    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    for file, part, count in (
        ("devkit/cars_train_annos.mat", "cars_train", TRAIN),
        ("cars_test_annos_withlabels.mat", "cars_test", TEST),
    ):
        rows = [(f"{i:05d}.jpg", 1 + i % 2) for i in range(2 * count)]
        for name, _ in rows:
            write(base / part / name)
        table = np.array(rows, dtype=[("fname", "O"), ("class", "O")])
        scipy.io.savemat(base / file, {"annotations": table})
    scipy.io.savemat(base / "devkit/cars_meta.mat", {"class_names": np.array(CLASSES, dtype=object)})


def aircraft(root, monkeypatch):
    data = root / "fgvc-aircraft-2013b/data"
    write(data / "variants.txt", "\n".join(CLASSES))
    for part, count in (("train", 4), ("val", 2), ("test", TEST)):
        names = [(f"{part}{name}{i}", name) for name in CLASSES for i in range(count)]
        write(data / f"images_variant_{part}.txt", "".join(f"{image} {name}\n" for image, name in names))
        for image, _ in names:
            write(data / f"images/{image}.jpg")


def dtd(root, monkeypatch):
    for split, shift in ((1, 0), (2, 1)):
        parts = [("train", 4), ("val", 2), ("test", TEST)]
        for (part, count), (other, _) in zip(parts, parts[shift:] + parts[:shift], strict=True):
            names = [f"{name}.jpg" for name in numbered(other, count)]
            write(root / f"dtd/dtd/labels/{part}{split}.txt", "\n".join(names))
    for part, count in (("train", 4), ("val", 2), ("test", TEST)):
        for name in numbered(part, count):
            write(root / f"dtd/dtd/images/{name}.jpg")


def pets(root, monkeypatch):
    for part, count in (("trainval", TRAIN), ("test", TEST)):
        rows = [(f"{name}_{part}{i}", label) for label, name in enumerate(CLASSES, 1) for i in range(count)]
        lines = "".join(f"{image} {label} 1 1\n" for image, label in rows)
        write(root / f"oxford-iiit-pet/annotations/{part}.txt", lines)
        for image, _ in rows:
            write(root / f"oxford-iiit-pet/images/{image}.jpg")


def caltech(root, monkeypatch):
    for name, count in (("ant", 33), ("bee", 31), ("BACKGROUND_Google", 2)):
        for i in range(1, count + 1):
            write(root / f"caltech101/101_ObjectCategories/{name}/image_{i:04d}.jpg")


def flowers(root, monkeypatch):
    monkeypatch.setattr(datasets.Flowers102, "_check_integrity", lambda self: True)
    base, parts = root / "flowers-102", {"trnid": range(1, 9), "valid": range(9, 13), "tstid": range(13, 19)}
    for i in range(1, 19):
        write(base / f"jpg/image_{i:05d}.jpg")
    scipy.io.savemat(base / "setid.mat", {key: list(ids) for key, ids in parts.items()})
    scipy.io.savemat(base / "imagelabels.mat", {"labels": np.array([1 + i % 2 for i in range(18)])})


OFFICIAL = [[4, 4], [2, 2], [TEST, TEST]]
"""Images of each class in the three parts."""
TENTH = [[9, 9], [1, 1], [TEST, TEST]]
FIFTH = [[8, 8], [2, 2], [TEST, TEST]]
TOP, MEAN = "top-1", "mean per class"
SETS = {
    "Food101": (food, TOP, TENTH),
    "CIFAR10": (cifar("CIFAR10", "labels"), TOP, TENTH),
    "CIFAR100": (cifar("CIFAR100", "fine_labels"), TOP, TENTH),
    "Birdsnap": (birdsnap, TOP, TENTH),
    "SUN397": (sun, TOP, FIFTH),
    "Cars": (cars, TOP, FIFTH),
    "Aircraft": (aircraft, MEAN, OFFICIAL),
    "DTD": (dtd, TOP, OFFICIAL),
    "Pets": (pets, MEAN, FIFTH),
    "Caltech101": (caltech, MEAN, [[25, 25], [5, 5], [3, 1]]),
    "Flowers": (flowers, MEAN, OFFICIAL),
}


def roles(transfer):
    return {name: role for role, part in transfer.roles for name in part.names}


def test_the_order_is_the_papers():
    assert tuple(SETS) == TRANSFER_NAMES


@pytest.mark.parametrize("name", SETS)
def test_every_image_has_one_role_and_its_label(tmp_path, monkeypatch, name, capfd):
    build, metric, counts = SETS[name]
    build(tmp_path, monkeypatch)
    found = load_transfer(name.lower(), tmp_path, download=False)
    assert (found.name, found.metric) == (name, metric)
    parts = [found.train, found.val, found.test]
    assert [torch.bincount(part.labels_N).tolist() for part in parts] == counts
    assert all(part.labels_N.dtype == torch.int64 for part in parts)
    assert len(roles(found)) == sum(map(len, parts)) == sum(map(sum, counts))
    for part in parts:
        if isinstance(part.images, ImageFiles):
            assert read_image(part.images.path(0)).shape == (3, 8, 8)
            assert part.names == part.images.paths
            on_disk = [Path(part.images.path(i)).is_file() for i in range(len(part))]
            assert all(on_disk)
        else:
            assert part.images.shape == (len(part), 3, 32, 32)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", [name for name in SETS if name not in ("Cars", "Flowers", "CIFAR10", "CIFAR100")]
)
def test_labels_are_those_of_the_names(tmp_path, monkeypatch, name):
    SETS[name][0](tmp_path, monkeypatch)
    found = load_transfer(name, tmp_path)
    for _, part in found.roles:
        for path, label in zip(part.names, part.labels_N.tolist(), strict=True):
            assert CLASSES[label] in path
            assert CLASSES[1 - label] not in path


def test_pixels_of_an_array_keep_their_place(tmp_path, monkeypatch):
    SETS["CIFAR10"][0](tmp_path, monkeypatch)
    found = load_transfer("CIFAR10", tmp_path)
    whole = datasets.CIFAR10(tmp_path, train=True)
    for part in (found.train, found.val):
        for image, name, label in zip(part.images, part.names, part.labels_N.tolist(), strict=True):
            place = int(name.removeprefix("train[").removesuffix("]"))
            assert np.array_equal(image.permute(1, 2, 0), whole.data[place])
            assert label == whole.targets[place]
    assert list(found.test.names) == [f"test[{i}]" for i in range(2 * TEST)]


@pytest.mark.parametrize(
    ("name", "val"),
    [
        ("DTD", "dtd/dtd/images/ant/val0.jpg"),
        ("Aircraft", "fgvc-aircraft-2013b/data/images/valant0.jpg"),
        ("Flowers", "flowers-102/jpg/image_00009.jpg"),
    ],
)
def test_official_parts_are_not_drawn(tmp_path, monkeypatch, name, val):
    SETS[name][0](tmp_path, monkeypatch)
    first, second = load_transfer(name, tmp_path, seed=0), load_transfer(name, tmp_path, seed=1)
    assert roles(first)[val] == "val"
    assert first.split_sha256 == second.split_sha256


@pytest.mark.parametrize("name", ["Food101", "CIFAR100", "Birdsnap", "SUN397", "Cars", "Pets", "Caltech101"])
def test_a_drawn_part_is_the_seeds(tmp_path, monkeypatch, name):
    SETS[name][0](tmp_path, monkeypatch)
    first, again = load_transfer(name, tmp_path, seed=0), load_transfer(name, tmp_path, seed=0)
    assert roles(first) == roles(again)
    assert first.split_sha256 == again.split_sha256
    others = {load_transfer(name, tmp_path, seed=seed).split_sha256 for seed in range(1, 5)}
    assert others - {first.split_sha256}
    if name != "Caltech101":
        assert set(first.test.names) == set(load_transfer(name, tmp_path, seed=1).test.names)


def test_the_split_is_the_same_wherever_the_data_lie(tmp_path, monkeypatch):
    food(tmp_path / "here", monkeypatch)
    food(tmp_path / "there/far", monkeypatch)
    here, there = (load_transfer("Food101", tmp_path / root) for root in ("here", "there/far"))
    assert here.split_sha256 == there.split_sha256
    assert here.train.names[0] == "food-101/images/ant/train0.jpg"
    assert len(here.split_sha256) == 64


def test_images_of_sun_that_are_in_no_list_are_not_used(tmp_path, monkeypatch):
    sun(tmp_path, monkeypatch)
    found = roles(load_transfer("SUN397", tmp_path))
    assert not any("Unused" in name for name in found)
    assert all(("Testing" in name) == (role == "test") for name, role in found.items())


@pytest.mark.parametrize("folder", ["SUN397/Partitions", "Partitions", "."])
def test_the_lists_of_sun_may_lie_beside_it(tmp_path, monkeypatch, folder):
    sun(tmp_path, monkeypatch)
    expected = load_transfer("SUN397", tmp_path).split_sha256
    (tmp_path / folder).mkdir(exist_ok=True)
    for file in ("Training_01.txt", "Testing_01.txt"):
        (tmp_path / "SUN397" / file).rename(tmp_path / folder / file)
    assert load_transfer("SUN397", tmp_path).split_sha256 == expected


@pytest.mark.parametrize("file", ["Training_01.txt", "Testing_01.txt"])
def test_without_the_published_lists_of_sun_there_is_no_split(tmp_path, monkeypatch, file):
    sun(tmp_path, monkeypatch)
    (tmp_path / "SUN397" / file).unlink()
    with pytest.raises(UserError, match=rf"SUN397: {file} is not in .*SUN397: unpack Partitions.zip"):
        load_transfer("SUN397", tmp_path)


def test_a_listed_image_of_sun_that_is_missing_is_named(tmp_path, monkeypatch):
    sun(tmp_path, monkeypatch)
    (tmp_path / "SUN397/a/ant/sun_Testing1.jpg").unlink()
    with pytest.raises(
        UserError, match=r"Testing_01.txt: line 2: SUN397/a/ant/sun_Testing1.jpg is not there \(1 of"
    ):
        load_transfer("SUN397", tmp_path)


def test_an_image_in_two_parts_is_refused(tmp_path, monkeypatch):
    sun(tmp_path, monkeypatch)
    with (tmp_path / "SUN397/Testing_01.txt").open("a") as file:
        file.write("/a/ant/sun_Training0.jpg\n")
    with pytest.raises(UserError, match=r"SUN397: SUN397/a/ant/sun_Training0.jpg is in the split twice"):
        load_transfer("SUN397", tmp_path)


def test_the_background_of_caltech_is_left_out(tmp_path, monkeypatch):
    caltech(tmp_path, monkeypatch)
    found = load_transfer("Caltech101", tmp_path)
    assert found.classes == CLASSES
    assert not any("BACKGROUND" in name for name in roles(found))


def test_a_class_of_caltech_with_too_few_images_is_named(tmp_path, monkeypatch):
    caltech(tmp_path, monkeypatch)
    for i in (30, 31):
        (tmp_path / f"caltech101/101_ObjectCategories/bee/image_{i:04d}.jpg").unlink()
    with pytest.raises(UserError, match="class 'bee' has 29 labelled images: 30"):
        load_transfer("Caltech101", tmp_path)


def test_birdsnaps_own_validation_part_is_used(tmp_path, monkeypatch):
    birdsnap(tmp_path, monkeypatch)
    write(tmp_path / "birdsnap/val/bee/7.jpg")
    found = load_transfer("Birdsnap", tmp_path / "birdsnap")
    assert list(found.val.names) == ["val/bee/7.jpg"]
    assert found.val.labels_N.tolist() == [1]
    assert len(found.train) == 2 * TRAIN


@pytest.mark.parametrize("path", ["test/wasp/1.jpg", "test/1.jpg", "train/1.jpg"])
def test_a_bird_of_no_class_is_refused(tmp_path, monkeypatch, path):
    birdsnap(tmp_path, monkeypatch)
    write(tmp_path / "birdsnap" / path)
    with pytest.raises(UserError, match=rf"{path} is in no class folder that train/ has"):
        load_transfer("Birdsnap", tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_what_is_not_there_is_one_line(tmp_path, name):
    with pytest.raises(UserError) as caught:
        load_transfer(name, tmp_path, download=False)
    line = str(caught.value)
    assert "\n" not in line
    assert f"not in {tmp_path}" in line
    if name == "SUN397":
        assert "Training_01.txt is not in" in line
    else:
        assert "--root FOLDER" in line
    if name == "Cars":
        assert "StanfordCars dataset cannot be downloaded anymore" in line
    if name == "Birdsnap":
        assert "torchvision does not download it" in line


def test_a_download_is_tried_if_it_may_be(tmp_path):
    with pytest.raises(
        UserError, match=r"Food101 \(split=train\) is not in .* could not be downloaded \(.*no network"
    ):
        load_transfer("Food101", tmp_path)


def test_classes_too_small_to_set_one_aside_are_told(tmp_path):
    for part in ("train", "test"):
        for name in CLASSES:
            write(tmp_path / f"birdsnap/{part}/{name}/0.jpg")
    with pytest.raises(UserError, match="Birdsnap: no image is left for the part val"):
        load_transfer("Birdsnap", tmp_path)


def test_an_unknown_name_is_answered_with_those_that_exist(tmp_path):
    with pytest.raises(UserError, match="unknown transfer set 'MNIST': choose from Aircraft, Birdsnap, "):
        load_transfer("MNIST", tmp_path)


def test_the_default_root_is_that_of_torchvisions_sets(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pets(tmp_path / "semppl/data", monkeypatch)
    assert len(load_transfer("Pets", None).test) == 2 * TEST
