"""Data sets that torchvision knows by name. Shapes: M images, T test images, H×W pixels."""

import contextlib
import io
import os
import pickle
import sys
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from importlib import import_module
from lzma import LZMAError
from pathlib import Path
from textwrap import shorten
from typing import Final, NoReturn

import torch
from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.attributes import class_names, content_of

Arguments = Mapping[str, bool | str]


@dataclass(frozen=True)
class Named:
    """A data set by name: pixels where torchvision holds them in memory, else absolute paths.

    Paths are sorted within each part, for torchvision gives some as the disk happens to list them.
    """

    classes: tuple[str, ...]
    images: Tensor | list[str]
    """uint8 [M, 3, H, W], or M paths."""
    labels_M: Tensor
    """int64, −1 where there is no label."""
    test_images: Tensor | list[str] | None
    test_labels_T: Tensor | None


@dataclass(frozen=True)
class _Way:
    """How torchvision is asked for the parts: arguments that, with the root, make each of them."""

    train: tuple[Arguments, ...]
    test: Arguments | None
    downloads: bool = True


_WHOLE: Final = _Way(({},), None)
_BOOLEAN: Final = _Way(({"train": True},), {"train": False})
_TRAIN_TEST: Final = _Way(({"split": "train"},), {"split": "test"})
_TRAIN_VAL_TEST: Final = _Way(({"split": "train"}, {"split": "val"}), {"split": "test"})
_TRAINVAL_TEST: Final = _Way(({"split": "trainval"},), {"split": "test"})
_TRAIN_VAL: Final = _Way(({"split": "train"},), {"split": "val"})

_WAYS: Final[Mapping[str, _Way]] = {
    "Caltech101": _WHOLE,
    "Caltech256": _WHOLE,
    "CIFAR10": _BOOLEAN,
    "CIFAR100": _BOOLEAN,
    "CLEVRClassification": _TRAIN_VAL,  # its test images have no labels
    "Country211": _Way(({"split": "train"}, {"split": "valid"}), {"split": "test"}),
    "DTD": _TRAIN_VAL_TEST,
    "EMNIST": _Way(({"split": "balanced", "train": True},), {"split": "balanced", "train": False}),
    "EuroSAT": _WHOLE,
    "FashionMNIST": _BOOLEAN,
    "FER2013": _Way(({"split": "train"},), {"split": "test"}, downloads=False),
    "FGVCAircraft": _TRAINVAL_TEST,
    "Flowers102": _TRAIN_VAL_TEST,
    "Food101": _TRAIN_TEST,
    "GTSRB": _TRAIN_TEST,
    "ImageNet": _Way(({"split": "train"},), {"split": "val"}, downloads=False),
    "Imagenette": _TRAIN_VAL,
    "INaturalist": _Way(({"version": "2021_train"},), {"version": "2021_valid"}),
    "KMNIST": _BOOLEAN,
    "MNIST": _BOOLEAN,
    "OxfordIIITPet": _TRAINVAL_TEST,
    "Places365": _Way(({"split": "train-standard", "small": True},), {"split": "val", "small": True}),
    "QMNIST": _BOOLEAN,
    "RenderedSST2": _TRAIN_VAL_TEST,
    "SEMEION": _WHOLE,
    "StanfordCars": _TRAIN_TEST,
    "STL10": _Way(({"split": "train+unlabeled"},), {"split": "test"}),
    "SUN397": _WHOLE,
    "SVHN": _TRAIN_TEST,
    "USPS": _BOOLEAN,
}
_BY_LOWER: Final = {name.lower(): name for name in _WAYS}

_FAILURES: Final = (
    OSError,  # no such file, URLError, HTTPError, ConnectionError, timeouts
    RuntimeError,  # torchvision's "Dataset not found or corrupted"
    ValueError,
    TypeError,
    LookupError,
    AssertionError,
    ImportError,
    EOFError,
    HTTPException,
    LZMAError,
    pickle.UnpicklingError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class _Part:
    images: Tensor | list[str]
    labels: list[int]
    classes: tuple[str, ...] | None


def known_names() -> tuple[str, ...]:
    """Names of the sets that can be loaded, as torchvision spells them."""
    return tuple(_WAYS)


def is_torchvision_name(name: str) -> str | None:
    """The name as torchvision spells it, whatever its case, if the set can be loaded."""
    return _BY_LOWER.get(name.lower())


def default_root() -> Path:
    """Where data sets lie if no folder is given."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "semppl" / "data"


def load_torchvision(name: str, root: Path | None, *, download: bool = True) -> Named:
    """The named set from a folder, downloaded into it where it is missing.

    A validation part is joined with the training part, unless it is the only other part with labels.
    """
    canonical = is_torchvision_name(name)
    if canonical is None:
        raise UserError(f"unknown torchvision data set {name!r}: choose from {', '.join(known_names())}")
    folder = (default_root() if root is None else root).expanduser().absolute()
    way = _WAYS[canonical]
    with _silence():
        train = [_load(canonical, arguments, folder, download=download) for arguments in way.train]
        test = None if way.test is None else _load(canonical, way.test, folder, download=download)
    if test is not None and UNLABELLED in test.labels:
        test = None
    parts = train if test is None else [*train, test]
    classes = _classes(parts, f"{canonical} in {folder}")
    images = _join([part.images for part in train])
    labels = [label for part in train for label in part.labels]
    return Named(
        classes=tuple(classes.values()),
        images=images,
        labels_M=_places(labels, classes),
        test_images=None if test is None else test.images,
        test_labels_T=None if test is None else _places(test.labels, classes),
    )


def load_parts(
    name: str, parts: Sequence[Arguments], root: Path, *, download: bool = True
) -> tuple[tuple[str, ...], list[tuple[Tensor | list[str], Tensor]]]:
    """Classes, and images and labels of each part that torchvision is asked for; nothing is joined."""
    with _silence():
        found = [_load(name, arguments, root, download=download) for arguments in parts]
    classes = _classes(found, f"{name} in {root}")
    return tuple(classes.values()), [(part.images, _places(part.labels, classes)) for part in found]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No warnings of others, and their progress bars on a terminal only."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if not sys.stderr.isatty():
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        yield


def _load(name: str, arguments: Arguments, root: Path, *, download: bool) -> _Part:
    """What lies in the folder needs no network: it is tried first."""
    downloads = _WAYS[name].downloads
    try:
        return _ask(name, {**arguments, "download": False} if downloads else arguments, root)
    except _FAILURES as error:
        if not (downloads and download):
            what = "was not downloaded" if downloads else "torchvision does not download it"
            _give_up(name, arguments, root, error, what)
    try:
        return _ask(name, {**arguments, "download": True}, root)
    except _FAILURES as error:
        _give_up(name, arguments, root, error, "could not be downloaded")


def _give_up(name: str, arguments: Arguments, root: Path, error: BaseException, what: str) -> NoReturn:
    words = ", ".join(f"{key}={value}" for key, value in arguments.items())
    part = f" ({words})" if words else ""
    reason = shorten(str(error), 200, placeholder="…") or type(error).__name__
    raise UserError(
        f"{name}{part} is not in {root} or is damaged there, and {what} ({reason}): "
        "put it there as torchvision lays it out, or name its folder with --root FOLDER"
    ) from error


def _ask(name: str, arguments: Arguments, root: Path) -> _Part:
    dataset = getattr(import_module("torchvision.datasets"), name)(str(root), **arguments)
    content, given = content_of(dataset)
    labels = [UNLABELLED if label is None else int(label) for label in given]
    if not labels:
        raise FileNotFoundError("it holds no images")
    classes = class_names(dataset)
    if isinstance(content, Tensor):
        return _Part(content, labels, classes)
    pairs = sorted(zip(map(str, content), labels, strict=True))
    for path, _ in pairs[:1] + pairs[-1:]:
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path} is missing")
    return _Part([path for path, _ in pairs], [label for _, label in pairs], classes)


def _classes(parts: list[_Part], what: str) -> dict[int, str]:
    """Label → name, the same in all parts; the numbers that occur where the set names no classes."""
    names = parts[0].classes
    if any(part.classes != names for part in parts):
        raise UserError(f"{what}: its parts have different classes: a part is damaged")
    present = sorted({label for part in parts for label in part.labels} - {UNLABELLED})
    if names is None:
        return {label: str(label) for label in present}
    if present and not 0 <= present[0] <= present[-1] < len(names):
        raise UserError(f"{what}: label {present[-1]} is out of range: it names {len(names)} classes")
    return dict(enumerate(names))


def _places(labels: list[int], classes: dict[int, str]) -> Tensor:
    place = {label: i for i, label in enumerate(classes)}
    return torch.tensor([place.get(label, UNLABELLED) for label in labels], dtype=torch.int64)


def _join(images: list[Tensor | list[str]]) -> Tensor | list[str]:
    if len(images) == 1:
        return images[0]
    tensors = [part for part in images if isinstance(part, Tensor)]
    return torch.cat(tensors) if tensors else [path for part in images for path in part]
