"""torchvision itself reads small files laid out as it expects them; only its checksums are passed over."""

import ast
import bz2
import io
import json
import pickle
import sys
import urllib.request
import warnings
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import scipy.io
import torch
from torchvision import datasets

from semppl.core.errors import UserError
from semppl.data.torchvision import default_root, is_torchvision_name, known_names, load_torchvision

TRAIN, TEST = [1, 0, 2], [2, 1]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("no network here")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@dataclass
class Expected:
    """What a set on disk should become: images are pixels [M,3,H,W] or paths below the root."""

    images: object
    labels: list
    classes: tuple
    test_images: object = None
    test_labels: list | None = None


def pixels(num, height=6, width=5):
    return np.random.default_rng(num).integers(0, 256, (num, 3, height, width), dtype=np.uint8)


def grey(num, height=6, width=5):
    return pixels(num, height, width)[:, :1].repeat(3, axis=1)


def digits(num=3):
    return tuple(str(i) for i in range(num))


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def touch(root, paths):
    for path in paths:
        write(root / path, b"")
    return sorted(paths)


def idx(path, array):
    kind = {"uint8": 8, "int32": 12}[array.dtype.name]
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    write(
        path, bytes([0, 0, kind, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def mnist(name, prefixes=("train", "t10k"), classes=None):
    def build(root, monkeypatch):
        for prefix, labels in zip(prefixes, (TRAIN, TEST), strict=True):
            idx(root / name / "raw" / f"{prefix}-images-idx3-ubyte", grey(len(labels))[:, 0])
            idx(root / name / "raw" / f"{prefix}-labels-idx1-ubyte", np.array(labels, np.uint8))
        return Expected(grey(3), TRAIN, tuple(classes or getattr(datasets, name).classes), grey(2), TEST)

    return build


def qmnist(root, monkeypatch):
    for prefix, labels in (("qmnist-train", TRAIN), ("qmnist-test", TEST)):
        idx(root / "QMNIST" / "raw" / f"{prefix}-images-idx3-ubyte", grey(len(labels))[:, 0])
        table = np.array([[label, 9, 9, 9, 9, 9, 9, 9] for label in labels], np.int32)
        idx(root / "QMNIST" / "raw" / f"{prefix}-labels-idx2-int", table)
    return Expected(grey(3), TRAIN, tuple(datasets.MNIST.classes), grey(2), TEST)


def cifar(name, files, key):
    def build(root, monkeypatch):
        monkeypatch.setattr(datasets.cifar, "check_integrity", lambda *args: True)
        folder = root / getattr(datasets, name).base_folder
        for file, labels in zip(files, (TRAIN, TEST), strict=True):
            write(
                folder / file,
                pickle.dumps({"data": pixels(len(labels), 32, 32).reshape(-1, 3072), key: labels}),
            )
        for i in range(2, 6):
            empty = {"data": np.zeros((0, 3072), np.uint8), key: []}
            write(folder / f"data_batch_{i}", pickle.dumps(empty))
        meta = getattr(datasets, name).meta
        write(folder / meta["filename"], pickle.dumps({meta["key"]: ["ant", "bee", "cat"]}))
        return Expected(pixels(3, 32, 32), TRAIN, ("ant", "bee", "cat"), pixels(2, 32, 32), TEST)

    return build


def svhn(root, monkeypatch):
    monkeypatch.setattr(datasets.SVHN, "_check_integrity", lambda self: True)
    for split, labels in (("train", [1, 10, 2]), ("test", TEST)):
        content = {"X": pixels(len(labels)).transpose(2, 3, 1, 0), "y": np.array(labels)[:, None]}
        scipy.io.savemat(root / f"{split}_32x32.mat", content)
    return Expected(pixels(3), TRAIN, digits(), pixels(2), TEST)


def stl10(root, monkeypatch):
    monkeypatch.setattr(datasets.STL10, "_check_integrity", lambda self: True)
    folder = root / "stl10_binary"
    for file, num in (("train", 3), ("unlabeled", 4), ("test", 2)):
        write(folder / f"{file}_X.bin", pixels(num, 96, 96).transpose(0, 1, 3, 2).tobytes())
    for file, labels in (("train", TRAIN), ("test", TEST)):
        write(folder / f"{file}_y.bin", (np.array(labels, np.uint8) + 1).tobytes())
    write(folder / "class_names.txt", "ant\nbee\ncat\n")
    both = np.concatenate([pixels(3, 96, 96), pixels(4, 96, 96)])
    return Expected(both, [*TRAIN, -1, -1, -1, -1], ("ant", "bee", "cat"), pixels(2, 96, 96), TEST)


def usps(root, monkeypatch):
    for file, labels in (("usps.bz2", TRAIN), ("usps.t.bz2", TEST)):
        values = grey(len(labels), 16, 16)[:, 0].reshape(len(labels), -1) // 128 * 2.0 - 1
        rows = [
            f"{label + 1} " + " ".join(f"{i}:{v}" for i, v in enumerate(row, 1))
            for label, row in zip(labels, values, strict=True)
        ]
        write(root / file, bz2.compress("\n".join(rows).encode()))
    return Expected(grey(3, 16, 16) // 128 * 255, TRAIN, digits(), grey(2, 16, 16) // 128 * 255, TEST)


def semeion(root, monkeypatch):
    monkeypatch.setattr(datasets.SEMEION, "_check_integrity", lambda self: True)
    ink = grey(3, 16, 16)[:, 0].reshape(3, -1) // 128
    np.savetxt(root / "semeion.data", np.concatenate([ink, np.eye(10)[TRAIN]], axis=1))
    return Expected(grey(3, 16, 16) // 128 * 255, TRAIN, digits())


def fer2013(root, monkeypatch):
    monkeypatch.setattr(datasets.fer2013, "check_integrity", lambda *args, **kwargs: True)
    rows = ["emotion,pixels,Usage"]
    for usage, labels in (("Training", TRAIN), ("PublicTest", TEST)):
        for label, image in zip(labels, grey(len(labels), 48, 48)[:, 0], strict=True):
            rows.append(f"{label},{' '.join(map(str, image.ravel()))},{usage}")
    write(root / "fer2013" / "fer2013.csv", "\n".join(rows))
    return Expected(grey(3, 48, 48), TRAIN, digits(), grey(2, 48, 48), TEST)


def tree(parts, classes=("ant", "bee"), file="{i}.jpg", names=None):
    """Folders of classes below a folder for each part; the last part is for testing if there are several."""

    def build(root, monkeypatch):
        found, labels = [], []
        for part in parts:
            files = [f"{part}/{name}/{file.format(i=i)}" for name in classes for i in (1, 2)]
            found.append(touch(root, files))
            labels.append([label for label in range(len(classes)) for _ in (1, 2)])
        if len(parts) == 1:
            return Expected(found[0], labels[0], names or classes)
        images = [path for part in found[:-1] for path in part]
        return Expected(
            images, [label for part in labels[:-1] for label in part], names or classes, found[-1], labels[-1]
        )

    return build


def caltech101(root, monkeypatch):
    touch(root, ["caltech101/101_ObjectCategories/BACKGROUND_Google/image_0001.jpg"])
    return tree(["caltech101/101_ObjectCategories"], file="image_{i:04d}.jpg")(root, monkeypatch)


def caltech256(root, monkeypatch):
    top = "caltech256/256_ObjectCategories"
    paths = touch(root, [f"{top}/001.ant/001_0001.jpg", f"{top}/002.bee/002_0001.jpg"])
    touch(root, [f"{top}/002.bee/greg.txt"])
    return Expected(paths, [0, 1], ("001.ant", "002.bee"))


def clevr(root, monkeypatch):
    top = "clevr/CLEVR_v1.0"
    paths = {}
    for split, objects in (("train", [4, 3]), ("val", [9])):
        paths[split] = touch(root, [f"{top}/images/{split}/{i}.png" for i in range(len(objects))])
        scenes = [{"image_filename": f"{i}.png", "objects": [0] * num} for i, num in enumerate(objects)]
        write(root / top / "scenes" / f"CLEVR_{split}_scenes.json", json.dumps({"scenes": scenes}))
    return Expected(paths["train"], [1, 0], ("3", "4", "9"), paths["val"], [2])


def dtd(root, monkeypatch):
    for split in ("train", "val", "test"):
        touch(root, [f"dtd/dtd/images/{name}/{split}.jpg" for name in ("ant", "bee")])
        write(root / f"dtd/dtd/labels/{split}1.txt", f"bee/{split}.jpg\nant/{split}.jpg\n")
    paths = {
        split: [f"dtd/dtd/images/{name}/{split}.jpg" for name in ("ant", "bee")]
        for split in ("train", "val", "test")
    }
    return Expected(paths["train"] + paths["val"], [0, 1, 0, 1], ("ant", "bee"), paths["test"], [0, 1])


def aircraft(root, monkeypatch):
    data = "fgvc-aircraft-2013b/data"
    write(root / data / "variants.txt", "707-320\nA 300\n")
    write(root / data / "images_variant_trainval.txt", "22 A 300\n11 707-320\n")
    write(root / data / "images_variant_test.txt", "33 A 300\n")
    paths = touch(root, [f"{data}/images/{i}.jpg" for i in (11, 22, 33)])
    return Expected(paths[:2], [0, 1], ("707-320", "A 300"), paths[2:], [1])


def flowers(root, monkeypatch):
    monkeypatch.setattr(datasets.Flowers102, "_check_integrity", lambda self: True)
    paths = touch(root, [f"flowers-102/jpg/image_{i:05d}.jpg" for i in range(1, 7)])
    ids = {"trnid": [2, 1], "valid": [4, 3], "tstid": [6, 5]}
    scipy.io.savemat(root / "flowers-102" / "setid.mat", ids)
    scipy.io.savemat(root / "flowers-102" / "imagelabels.mat", {"labels": np.array([1, 2, 3, 1, 2, 3])})
    return Expected(paths[:4], [0, 1, 2, 0], tuple(datasets.Flowers102.classes), paths[4:], [1, 2])


def food(root, monkeypatch):
    for split in ("train", "test"):
        write(
            root / f"food-101/meta/{split}.json",
            json.dumps({"bee": [f"bee/{split}"], "ant": [f"ant/{split}"]}),
        )
    paths = {
        split: touch(root, [f"food-101/images/{name}/{split}.jpg" for name in ("ant", "bee")])
        for split in ("train", "test")
    }
    return Expected(paths["train"], [0, 1], ("ant", "bee"), paths["test"], [0, 1])


def gtsrb(root, monkeypatch):
    train = touch(root, [f"gtsrb/GTSRB/Training/0000{i}/1.ppm" for i in range(3)])
    test = touch(root, ["gtsrb/GTSRB/Final_Test/Images/0.ppm", "gtsrb/GTSRB/Final_Test/Images/1.ppm"])
    write(root / "gtsrb/GT-final_test.csv", "Filename;ClassId\n1.ppm;1\n0.ppm;2\n")
    return Expected(train, [0, 1, 2], digits(), test, [2, 1])


def imagenet(root, monkeypatch):
    words = {"n1": ("crane", "bird"), "n2": ("crane",), "n3": ("crane",)}
    root.mkdir(exist_ok=True)
    torch.save((words, []), root / "meta.bin")
    return tree(["train", "val"], ("n1", "n2", "n3"), names=("crane, bird", "crane (1)", "crane (2)"))(
        root, monkeypatch
    )


def naturalist(root, monkeypatch):
    classes = ("00000_a_b_c_d_e_f_g", "00001_a_b_c_d_e_f_h")
    return tree(["2021_train", "2021_valid"], classes)(root, monkeypatch)


def pets(root, monkeypatch):
    base = "oxford-iiit-pet"
    write(root / base / "annotations/trainval.txt", "red_cat_2 2 1 1\nPug_1 1 2 1\n")
    write(root / base / "annotations/test.txt", "red_cat_3 2 1 1\nPug_3 1 2 1\n")
    train = touch(root, [f"{base}/images/Pug_1.jpg", f"{base}/images/red_cat_2.jpg"])
    test = touch(root, [f"{base}/images/Pug_3.jpg", f"{base}/images/red_cat_3.jpg"])
    return Expected(train, [0, 1], ("Pug", "Red Cat"), test, [0, 1])


def places(root, monkeypatch):
    monkeypatch.setattr(datasets.Places365, "_check_integrity", lambda *args: True)
    write(root / "categories_places365.txt", "/a/airfield 0\n/b/bar 1\n")
    write(root / "places365_train_standard.txt", "/b/bar/1.jpg 1\n/a/airfield/1.jpg 0\n")
    write(root / "places365_val.txt", "v1.jpg 1\n")
    train = touch(root, ["data_256_standard/a/airfield/1.jpg", "data_256_standard/b/bar/1.jpg"])
    return Expected(train, [0, 1], ("/a/airfield", "/b/bar"), touch(root, ["val_256/v1.jpg"]), [1])


def cars(root, monkeypatch):
    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    kind = [("fname", "O"), ("class", "O")]
    for file, rows in (
        ("devkit/cars_train_annos.mat", [("1.jpg", 2), ("2.jpg", 1)]),
        ("cars_test_annos_withlabels.mat", [("1.jpg", 1), ("2.jpg", 2)]),
    ):
        scipy.io.savemat(base / file, {"annotations": np.array(rows, dtype=kind)})
    scipy.io.savemat(base / "devkit/cars_meta.mat", {"class_names": np.array(["Audi", "BMW"], dtype=object)})
    train, test = ([f"stanford_cars/{part}/{i}.jpg" for i in (1, 2)] for part in ("cars_train", "cars_test"))
    return Expected(touch(root, train), [1, 0], ("Audi", "BMW"), touch(root, test), [0, 1])


def sun(root, monkeypatch):
    paths = touch(root, ["SUN397/a/abbey/sun_b.jpg", "SUN397/a/abbey/sun_a.jpg", "SUN397/b/bar/in/sun_a.jpg"])
    write(root / "SUN397/ClassName.txt", "/a/abbey\n/b/bar/in\n")
    return Expected(paths, [0, 0, 1], ("abbey", "bar/in"))


SETS = {
    "Caltech101": caltech101,
    "Caltech256": caltech256,
    "CIFAR10": cifar("CIFAR10", ("data_batch_1", "test_batch"), "labels"),
    "CIFAR100": cifar("CIFAR100", ("train", "test"), "fine_labels"),
    "CLEVRClassification": clevr,
    "Country211": tree(["country211/train", "country211/valid", "country211/test"]),
    "DTD": dtd,
    "EMNIST": mnist(
        "EMNIST",
        ("emnist-balanced-train", "emnist-balanced-test"),
        datasets.EMNIST.classes_split_dict["balanced"],
    ),
    "EuroSAT": tree(["eurosat/2750"]),
    "FashionMNIST": mnist("FashionMNIST"),
    "FER2013": fer2013,
    "FGVCAircraft": aircraft,
    "Flowers102": flowers,
    "Food101": food,
    "GTSRB": gtsrb,
    "ImageNet": imagenet,
    "Imagenette": tree(
        ["imagenette2/train", "imagenette2/val"],
        ("n01440764", "n02979186"),
        file="{i}.JPEG",
        names=("tench, Tinca tinca", "cassette player"),
    ),
    "INaturalist": naturalist,
    "KMNIST": mnist("KMNIST"),
    "MNIST": mnist("MNIST"),
    "OxfordIIITPet": pets,
    "Places365": places,
    "QMNIST": qmnist,
    "RenderedSST2": tree(
        ["rendered-sst2/train", "rendered-sst2/valid", "rendered-sst2/test"],
        ("negative", "positive"),
        file="{i}.png",
    ),
    "SEMEION": semeion,
    "StanfordCars": cars,
    "STL10": stl10,
    "SUN397": sun,
    "SVHN": svhn,
    "USPS": usps,
}


def same_images(found, expected, root):
    if expected is None:
        return found is None
    if isinstance(expected, list):
        return found == [str(root / path) for path in expected]
    return found.dtype == torch.uint8 and found.is_contiguous() and np.array_equal(found.numpy(), expected)


def test_every_set_is_tested():
    assert list(SETS) == list(known_names())


@pytest.mark.parametrize("name", SETS)
def test_a_set_on_disk_is_read_as_torchvision_lays_it_out(tmp_path, monkeypatch, capfd, name):
    expected = SETS[name](tmp_path, monkeypatch)
    found = load_torchvision(name.lower(), tmp_path)
    assert found.classes == tuple(expected.classes)
    assert same_images(found.images, expected.images, tmp_path)
    assert found.labels_M.tolist() == expected.labels
    assert found.labels_M.dtype == torch.int64
    assert same_images(found.test_images, expected.test_images, tmp_path)
    assert (None if found.test_labels_T is None else found.test_labels_T.tolist()) == expected.test_labels
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", SETS)
def test_what_is_not_there_and_cannot_be_downloaded_is_one_line(tmp_path, name, capfd):
    with pytest.raises(UserError) as caught:
        load_torchvision(name, tmp_path / "empty")
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(name)
    assert f" is not in {tmp_path / 'empty'}" in line
    assert "put it there as torchvision lays it out" in line
    assert "--root FOLDER" in line
    if name == "StanfordCars":
        assert "could not be downloaded (The original URL is broken" in line
    elif name in {"FER2013", "ImageNet"}:
        assert "torchvision does not download it" in line
    else:
        assert "could not be downloaded" in line
        assert "no network here" in line
    assert capfd.readouterr() == ("", "")


def test_names_are_known_in_any_case():
    assert is_torchvision_name("cifar10") == "CIFAR10"
    assert is_torchvision_name("OXFORDIIITPET") == "OxfordIIITPet"
    for name in ("digits", "cocodetection", "VisionDataset", "ImageFolder", "", "cifar"):
        assert is_torchvision_name(name) is None
    for name in known_names():
        assert is_torchvision_name(name.lower()) == name
        assert hasattr(datasets, name)


def test_an_unknown_name_is_answered_with_those_that_exist(tmp_path):
    with pytest.raises(UserError, match="unknown torchvision data set 'CelebA': choose from Caltech101, "):
        load_torchvision("CelebA", tmp_path)


def test_the_default_root_follows_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "semppl" / "data"
    SETS["EuroSAT"](default_root(), monkeypatch)
    assert len(load_torchvision("EuroSAT", None).images) == 4
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/ada")
    assert default_root() == Path("/home/ada/.cache/semppl/data")


def test_paths_are_absolute_also_below_a_relative_root(tmp_path, monkeypatch):
    SETS["EuroSAT"](tmp_path / "data", monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert load_torchvision("EuroSAT", Path("data")).images[0] == str(
        tmp_path / "data/eurosat/2750/ant/1.jpg"
    )


def test_test_images_without_labels_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.fer2013, "check_integrity", lambda *args, **kwargs: True)
    image = " ".join(["7"] * 48 * 48)
    write(tmp_path / "fer2013/train.csv", f"emotion,pixels\n3,{image}\n5,{image}\n")
    write(tmp_path / "fer2013/test.csv", f"pixels\n{image}\n")
    found = load_torchvision("FER2013", tmp_path)
    assert found.classes == ("3", "5")
    assert found.labels_M.tolist() == [0, 1]
    assert found.test_images is None
    assert found.test_labels_T is None


class Stub:
    """A set as torchvision would hold it; remembers how it was asked for."""

    asked: list
    there = False

    def __init__(self, root, train=True, download=False):
        self.asked.append((train, download))
        if not (self.there or download):
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        sys.stderr.write("100%|████|")
        self.data = pixels(2).transpose(0, 2, 3, 1)
        self.targets = [0, 1]
        self.classes = ["ant", "bee"]


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(Stub, "asked", [], raising=False)
    monkeypatch.setattr(datasets, "CIFAR10", Stub)
    return Stub


def test_what_is_there_is_not_downloaded(stub, monkeypatch, tmp_path):
    monkeypatch.setattr(stub, "there", True)
    load_torchvision("cifar10", tmp_path)
    assert stub.asked == [(True, False), (False, False)]


def test_what_is_not_there_is_downloaded(stub, tmp_path):
    found = load_torchvision("cifar10", tmp_path)
    assert stub.asked == [(True, False), (True, True), (False, False), (False, True)]
    assert found.classes == ("ant", "bee")
    assert same_images(found.images, pixels(2), tmp_path)


def test_without_download_nothing_is_downloaded(stub, tmp_path):
    with pytest.raises(
        UserError, match=r"CIFAR10 \(train=True\) is not in .* was not downloaded \(Dataset not"
    ):
        load_torchvision("cifar10", tmp_path, download=False)
    assert stub.asked == [(True, False)]


def test_progress_is_shown_on_a_terminal_only(stub, tmp_path, capsys, monkeypatch):
    load_torchvision("cifar10", tmp_path)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    load_torchvision("cifar10", tmp_path)
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HTTPError("http://x", 404, "Not Found", None, None), "HTTP Error 404: Not Found"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (TimeoutError("timed out"), "timed out"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (EOFError(), "EOFError"),
        (RuntimeError("Error downloading a.gz:\nTried http://x, got:\nboom\n"), "Tried http://x, got: boom"),
    ],
)
def test_failures_of_a_download_are_told_in_one_line(stub, tmp_path, monkeypatch, error, words):
    def fail(self, root, train=True, download=False):
        raise error

    monkeypatch.setattr(stub, "__init__", fail)
    with pytest.raises(UserError) as caught:
        load_torchvision("cifar10", tmp_path)
    line = str(caught.value)
    assert f"CIFAR10 (train=True) is not in {tmp_path}" in line
    assert "could not be downloaded (" in line
    assert words in line
    assert "\n" not in line


def test_a_download_that_breaks_off_is_told_and_draws_no_bar(tmp_path, monkeypatch, capfd):
    class Response(io.BytesIO):
        length, url = 1000, None

    monkeypatch.setattr(urllib.request, "urlopen", lambda *args, **kwargs: Response(b"half"))
    with pytest.raises(UserError, match=r"FashionMNIST \(train=True\) .* File not found or corrupted"):
        load_torchvision("FashionMNIST", tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_damaged_file_is_told(tmp_path, monkeypatch):
    SETS["MNIST"](tmp_path, monkeypatch)
    file = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"MNIST \(train=True\) is not in .* or is damaged there"):
        load_torchvision("MNIST", tmp_path)


def test_lists_whose_images_are_missing_are_not_taken_for_the_set(tmp_path, monkeypatch):
    SETS["Places365"](tmp_path, monkeypatch)
    (tmp_path / "val_256/v1.jpg").unlink()
    with pytest.raises(UserError, match=r"Places365 \(split=val, small=True\) .*v1.jpg is missing"):
        load_torchvision("Places365", tmp_path)


def test_parts_with_different_classes_are_refused(tmp_path, monkeypatch):
    SETS["Country211"](tmp_path, monkeypatch)
    (tmp_path / "country211/test/bee").rename(tmp_path / "country211/test/wasp")
    with pytest.raises(UserError, match=r"Country211 in .*: its parts have different classes"):
        load_torchvision("Country211", tmp_path)


def test_labels_beyond_the_classes_are_refused(tmp_path, monkeypatch):
    SETS["KMNIST"](tmp_path, monkeypatch)
    idx(tmp_path / "KMNIST/raw/train-labels-idx1-ubyte", np.array([0, 11, 1], np.uint8))
    with pytest.raises(UserError, match=r"KMNIST in .*: label 11 is out of range: it names 10 classes"):
        load_torchvision("KMNIST", tmp_path)


def test_importing_the_module_leaves_torchvision_alone():
    parsed = ast.parse(Path(load_torchvision.__code__.co_filename).read_text())
    imported = [node for node in parsed.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert "torchvision" not in ast.unparse(ast.Module(imported, []))
