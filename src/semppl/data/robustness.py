"""The test sets of the robustness evaluations as they were published. Shapes: N images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.errors import UserError, choose
from semppl.core.labels import UNLABELLED
from semppl.data.images import ImageFiles
from semppl.data.listing import list_images
from semppl.data.objectnet import OBJECTNET
from semppl.data.paths import Paths
from semppl.data.wnids import imagenet_r_indices, wnid_index

Family = Literal["imagenet-v2", "imagenet-c", "imagenet-r", "objectnet"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

VARIANTS: Final = ("matched-frequency", "threshold0.7", "top-images")
"""Of ImageNetV2."""

# ImageNet-C's archives; who unpacks them into folders of their own has these in between
_ARCHIVES: Final = ("", "noise", "blur", "weather", "digital")

Places = Mapping[str, Path | None]
"""Name of a set → its folder, if it is there."""


@dataclass(frozen=True)
class RobustnessSet:
    """Images that are for testing alone, and what they show."""

    name: str
    """Such as imagenet-v2/top-images, imagenet-c/fog/3, imagenet-r."""
    kind: Family
    images: ImageFiles
    labels_N: Tensor
    """int64: the ImageNet class, 0…999; of ObjectNet its own class, 0…112."""
    crop_border: int
    """Pixels to cut off at each side before anything else: ObjectNet's images have a red frame."""
    published: int
    """How many images the set has as published: with fewer the number is not comparable."""


@final
@dataclass(frozen=True)
class Found:
    """What is on the disk of a family. Sets are listed one by one as they are asked for.

    All sets of ImageNet-C together are 3.75 million files.
    """

    family: Family
    places: Mapping[str, Path]
    """Name of each set → its folder."""
    missing: tuple[str, ...]
    """Names of the sets that are not there."""

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[RobustnessSet]:
        for name, folder in self.places.items():
            yield _read(name, folder, _FAMILIES[self.family])


@dataclass(frozen=True)
class _Known:
    """What is known of a family before looking."""

    family: Family
    find: Callable[[Path], Places]
    classes: Callable[[], Mapping[str, int]]
    """Class folder → label."""
    published: int
    what: str
    """What to put there, and the project to get it from."""
    crop_border: int = 0
    others: bool = False
    """Whether there are folders of classes that are not scored."""


def robustness_sets(family: str, root: Path) -> Found:
    """The sets of a family below a folder, or in it if the folder is the family's own."""
    known = choose(_FAMILIES, family, "family of robustness sets")
    root = root.expanduser().absolute()
    places = known.find(root)
    if not any(places.values()):
        raise UserError(f"{family} is not in {root}: put {known.what} there, or name its folder with --root")
    present = {name: folder for name, folder in places.items() if folder is not None}
    return Found(known.family, present, tuple(name for name in places if name not in present))


def _read(name: str, folder: Path, known: _Known) -> RobustnessSet:
    family = known.family
    paths, labels_M = _labelled(folder, known.classes())
    kept_N = np.flatnonzero(labels_M != UNLABELLED)
    if not len(kept_N):
        raise UserError(f"{folder}: no image in the class folders of {family}: unpack the set again")
    if len(kept_N) < len(paths) and not known.others:
        strange = folder / paths[int(np.argmin(labels_M))]
        raise UserError(f"{strange} is in no class folder of {family}: remove it, or unpack the set again")
    return RobustnessSet(
        name=name,
        kind=family,
        images=ImageFiles(folder, paths.take(kept_N)),
        labels_N=torch.from_numpy(labels_M[kept_N]),
        crop_border=known.crop_border,
        published=known.published,
    )


def _labelled(folder: Path, classes: Mapping[str, int]) -> tuple[Paths, NDArray[np.int64]]:
    """Images and the label of the folder that each lies in, −1 if it is none of the classes."""
    listing = list_images(folder)
    if listing.unreadable_folders:
        closed = folder / listing.unreadable_folders[0]
        raise UserError(f"{closed}: this folder cannot be opened: check its permissions")
    labels = (classes.get(path.partition("/")[0], UNLABELLED) for path in listing.paths)
    return listing.paths, np.fromiter(labels, dtype=np.int64, count=len(listing.paths))


def _homes(root: Path, *names: str) -> list[Path]:
    """Where a family may lie: in folders of one of its names below the root, or in the root itself."""
    try:
        below = sorted(root.iterdir()) if root.is_dir() else []
    except OSError as error:
        raise UserError(f"{root}: this folder cannot be read ({error.strerror})") from error
    return [*(path for path in below if _plain(path.name) in names and path.is_dir()), root]


def _plain(name: str) -> str:
    """Capitals, hyphens and underscores differ from one unpacked copy to the next."""
    return name.lower().replace("-", "").replace("_", "")


def _first(folders: Sequence[Path], classes: Mapping[str, int] | None = None) -> Path | None:
    """The first folder that exists and holds a class folder, where it must."""
    for folder in folders:
        if folder.is_dir() and (classes is None or any((folder / name).is_dir() for name in classes)):
            return folder
    return None


def _find_v2(root: Path) -> Places:
    return {f"imagenet-v2/{variant}": _find_variant(root, variant) for variant in VARIANTS}


def _find_variant(root: Path, variant: str) -> Path | None:
    names = (f"imagenetv2-{variant}-format-val", f"imagenetv2-{variant}")
    inside = [home / name for home in _homes(root, "imagenetv2") for name in names]
    own = [root] if root.name in names else []
    return _first([*inside, *own], _numbered_folders())


def _find_c(root: Path) -> Places:
    homes = _homes(root, "imagenetc")
    return {
        f"imagenet-c/{corruption}/{severity}": _first(
            [home / archive / corruption / str(severity) for home in homes for archive in _ARCHIVES]
        )
        for corruption in CORRUPTIONS
        for severity in SEVERITIES
    }


def _find_r(root: Path) -> Places:
    """A folder of another name that has other classes, too, is ImageNet itself."""
    homes, shown = _homes(root, "imagenetr"), _r_folders()
    if _plain(root.name) != "imagenetr" and any(
        (root / wnid).is_dir() for wnid in wnid_index().keys() - shown
    ):
        homes.remove(root)
    return {"imagenet-r": _first(homes, shown)}


def _find_objectnet(root: Path) -> Places:
    inside = [home / "images" for home in _homes(root, "objectnet1.0", "objectnet")]
    own = [root] if root.name == "images" else []
    return {"objectnet": _first([*inside, *own], _objectnet_folders())}


def _numbered_folders() -> Mapping[str, int]:
    """As a number: sorted as text, 10 would follow 1."""
    return {str(index): index for index in range(1000)}


def _r_folders() -> Mapping[str, int]:
    shown = set(imagenet_r_indices())
    return {wnid: index for wnid, index in wnid_index().items() if index in shown}


def _objectnet_folders() -> Mapping[str, int]:
    return {folder: label for label, folder in enumerate(OBJECTNET)}


_FAMILIES: Final[Mapping[str, _Known]] = {
    known.family: known
    for known in (
        _Known(
            "imagenet-v2",
            _find_v2,
            _numbered_folders,
            10_000,
            f"imagenetv2-{VARIANTS[0]}-format-val/ and its two siblings of the ImageNetV2 project "
            "(modestyachts/ImageNetV2)",
        ),
        _Known(
            "imagenet-c",
            _find_c,
            wnid_index,
            50_000,
            "imagenet-c/CORRUPTION/SEVERITY/ of the ImageNet-C project (hendrycks/robustness)",
        ),
        _Known(
            "imagenet-r",
            _find_r,
            _r_folders,
            30_000,
            "imagenet-r/ of the ImageNet-R project (hendrycks/imagenet-r)",
        ),
        _Known(
            "objectnet",
            _find_objectnet,
            _objectnet_folders,
            18_574,
            "objectnet-1.0/ of the ObjectNet project (objectnet.dev)",
            crop_border=2,
            others=True,
        ),
    )
}
