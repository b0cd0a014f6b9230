"""The eleven data sets that the paper transfers to, each in a part to train, to validate and to test on.

Published parts are used as they are. Where no validation part was published, a share of each class of the
training images is set aside, chosen by the seed, with BYOL's sizes as a guide; `split_sha256` says whether
two splits are the same. Shapes: M images of a set, N of a part.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import torch
from torch import Tensor

from semppl.core.errors import UserError, choose
from semppl.core.labels import UNLABELLED
from semppl.data.images import ImageFiles, Images
from semppl.data.listing import list_images
from semppl.data.paths import Paths
from semppl.data.rows import numbered_lines
from semppl.data.splits import digest, hold_out, keep_per_class
from semppl.data.torchvision import Arguments, default_root, load_parts

Metric = Literal["top-1", "mean per class"]

_CALTECH_TRAIN, _CALTECH_VAL = 30, 5
_TRAIN_TEST: Final = ({"split": "train"}, {"split": "test"})


@dataclass(frozen=True)
class Part:
    """Images that play one role."""

    images: Images
    labels_N: Tensor
    """int64."""
    names: Paths
    """Paths below the root, or places in a published array: the same on every machine."""

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index_N: Tensor) -> "Part":
        """Some of them, in the order asked for."""
        images = self.images[index_N]
        names = images.paths if isinstance(images, ImageFiles) else self.names.take(index_N.numpy())
        return Part(images, self.labels_N[index_N], names)


@dataclass(frozen=True)
class Transfer:
    """A data set to transfer to. Tune on `train` and `val`, fit again on both, and look at `test` once."""

    name: str
    metric: Metric
    classes: tuple[str, ...]
    train: Part
    val: Part
    test: Part

    @property
    def roles(self) -> Iterator[tuple[str, Part]]:
        """The parts by name."""
        yield from (("train", self.train), ("val", self.val), ("test", self.test))

    @property
    def split_sha256(self) -> str:
        """Of every image's name, class and role: equal if and only if the split is the same."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(("path", "label", "role"))
        for role, part in self.roles:
            labels = (self.classes[label] for label in part.labels_N.tolist())
            table.writerows((name, label, role) for name, label in zip(part.names, labels, strict=True))
        return digest(text.getvalue())


@dataclass(frozen=True)
class _Ask:
    """Where to read from, and how to choose."""

    root: Path
    seed: int
    download: bool


Read = tuple[tuple[str, ...], list[Part]]
"""Classes, and the parts to train, to validate and to test on."""


def load_transfer(name: str, root: Path | None, *, seed: int = 0, download: bool = True) -> Transfer:
    """The named set below a folder; what torchvision can download is downloaded into it if it is missing."""
    by_lower = {known.lower(): known for known in TRANSFER_NAMES}
    name = by_lower.get(name.lower(), name)
    metric, read = choose(_SETS, name, "transfer set")
    folder = (default_root() if root is None else root).expanduser().absolute()
    classes, (train, val, test) = read(_Ask(folder, seed, download))
    made = Transfer(name, metric, classes, train, val, test)
    _require_apart(made)
    return made


def _require_apart(made: Transfer) -> None:
    """No image twice, and no part without one: published lists may have been changed since."""
    seen: set[str] = set()
    for role, part in made.roles:
        if not len(part):
            raise UserError(f"{made.name}: no image is left for the part {role}: the set is incomplete")
        for image in part.names:
            if image in seen:
                raise UserError(f"{made.name}: {image} is in the split twice: its lists are damaged")
            seen.add(image)


def _official(source: str, parts: Sequence[Arguments], ask: _Ask) -> Read:
    """As torchvision has them."""
    classes, found = load_parts(source, parts, ask.root, download=ask.download)
    roles = ("train", "val", "test") if len(parts) == 3 else ("train", "test")
    return classes, [_part(*part, ask.root, role) for part, role in zip(found, roles, strict=False)]


def _carved(source: str, parts: Sequence[Arguments], share: float, ask: _Ask) -> Read:
    """A share of the training images of each class is for validation."""
    classes, (train, test) = _official(source, parts, ask)
    return classes, [*_divided(train, share, ask.seed), test]


def _divided(whole: Part, share: float, seed: int) -> list[Part]:
    train_M, val_M = hold_out(whole.labels_N, share, seed)
    return [whole[_chosen(train_M)], whole[_chosen(val_M)]]


def _chosen(labels_M: Tensor) -> Tensor:
    return (labels_M != UNLABELLED).nonzero().squeeze(1)


def _part(images: Tensor | list[str], labels_N: Tensor, root: Path, role: str) -> Part:
    if isinstance(images, Tensor):
        return Part(images, labels_N, Paths(f"{role}[{i}]" for i in range(len(images))))
    names = Paths(path.removeprefix(f"{root}/") for path in images)
    return Part(ImageFiles(root, names), labels_N, names)


def _cars(ask: _Ask) -> Read:
    """torchvision cannot download it any more, and says so if it is asked to."""
    return _carved("StanfordCars", _TRAIN_TEST, 0.2, replace(ask, download=True))


def _caltech101(ask: _Ask) -> Read:
    """30 images of each class to train on, 5 of them for validation, all others to test on.

    The 101 classes have no background class; BYOL's sizes are of 102, the background being one of them.
    """
    classes, (whole,) = _official("Caltech101", ({},), ask)
    kept_M = keep_per_class(whole.labels_N, _CALTECH_TRAIN, classes, ask.seed)
    drawn = whole[_chosen(kept_M)]
    test = whole[(kept_M == UNLABELLED).nonzero().squeeze(1)]
    return classes, [*_divided(drawn, _CALTECH_VAL / _CALTECH_TRAIN, ask.seed), test]


def _sun397(ask: _Ask) -> Read:
    """The first of ten published partitions: 50 images of each class to train on, 50 others to test on.

    The rest, two images of three, is not used.
    """
    lists = [_partition(ask.root, f"{what}_01.txt") for what in ("Training", "Testing")]
    classes, (whole,) = _official("SUN397", ({},), ask)
    place = {name: i for i, name in enumerate(whole.names)}
    train, test = (whole[_listed(file, place)] for file in lists)
    return classes, [*_divided(train, 0.2, ask.seed), test]


def _partition(root: Path, name: str) -> Path:
    home = root / "SUN397"
    for folder in (home, home / "Partitions", root / "Partitions", root):
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"SUN397: {name} is not in {home}: unpack Partitions.zip of the SUN database there, which has the "
        "published split"
    )


def _listed(file: Path, place: Mapping[str, int]) -> Tensor:
    """Where the images are that a list names, one a line, as /a/abbey/sun_….jpg."""
    lines = [(number, f"SUN397/{line.lstrip('/')}") for number, line in numbered_lines(file)]
    if missing := [(number, name) for number, name in lines if name not in place]:
        number, name = missing[0]
        raise UserError(
            f"{file}: line {number}: {name} is not there ({len(missing):,} of {len(lines):,} images are "
            "missing): unpack SUN397 again"
        )
    return torch.tensor(sorted(place[name] for _, name in lines), dtype=torch.int64)


def _birdsnap(ask: _Ask) -> Read:
    """Class folders below train/, test/ and, if it is there, val/: torchvision does not know the set."""
    homes = [ask.root / "birdsnap", ask.root / "Birdsnap"]
    homes += [ask.root] if ask.root.name.lower() == "birdsnap" else []
    home = next((home for home in homes if (home / "train").is_dir() and (home / "test").is_dir()), None)
    if home is None:
        raise UserError(
            f"Birdsnap is not in {ask.root}, and torchvision does not download it: put the images that the "
            f"Birdsnap project's test_images.txt names into {homes[0]}/test/SPECIES/ and all others into "
            "train/SPECIES/, or name its folder with --root FOLDER"
        )
    species = {_species(path) for path in list_images(home / "train").paths}
    classes = tuple(sorted(species - {""}))
    train, test = (_folder(home, role, classes) for role in ("train", "test"))
    if (home / "val").is_dir():
        return classes, [train, _folder(home, "val", classes), test]
    return classes, [*_divided(train, 0.1, ask.seed), test]


def _species(path: str) -> str:
    """The class folder, empty for a file beside the folders."""
    return path.rpartition("/")[0].partition("/")[0]


def _folder(home: Path, role: str, classes: tuple[str, ...]) -> Part:
    paths, number = list_images(home / role).paths, {name: i for i, name in enumerate(classes)}
    labels = [number.get(_species(path), UNLABELLED) for path in paths]
    if UNLABELLED in labels:
        strange = home / role / paths[labels.index(UNLABELLED)]
        raise UserError(f"{strange} is in no class folder that train/ has: move it into one, or remove it")
    names = Paths(f"{role}/{path}" for path in paths)
    return Part(ImageFiles(home, names), torch.tensor(labels, dtype=torch.int64), names)


_TRAIN_VAL_TEST: Final = ({"split": "train"}, {"split": "val"}, {"split": "test"})
_CIFAR: Final = ({"train": True}, {"train": False})
_PETS: Final = ({"split": "trainval"}, {"split": "test"})

_SETS: Final[Mapping[str, tuple[Metric, Callable[[_Ask], Read]]]] = {
    "Food101": ("top-1", partial(_carved, "Food101", _TRAIN_TEST, 0.1)),
    "CIFAR10": ("top-1", partial(_carved, "CIFAR10", _CIFAR, 0.1)),
    "CIFAR100": ("top-1", partial(_carved, "CIFAR100", _CIFAR, 0.1)),
    "Birdsnap": ("top-1", _birdsnap),
    "SUN397": ("top-1", _sun397),
    "Cars": ("top-1", _cars),
    "Aircraft": ("mean per class", partial(_official, "FGVCAircraft", _TRAIN_VAL_TEST)),
    "DTD": ("top-1", partial(_official, "DTD", _TRAIN_VAL_TEST)),
    "Pets": ("mean per class", partial(_carved, "OxfordIIITPet", _PETS, 0.2)),
    "Caltech101": ("mean per class", _caltech101),
    "Flowers": ("mean per class", partial(_official, "Flowers102", _TRAIN_VAL_TEST)),
}
TRANSFER_NAMES: Final = tuple(_SETS)
"""In the order of the paper's table."""
