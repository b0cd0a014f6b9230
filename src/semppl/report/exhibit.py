"""What a run left behind to look at, checked to the last index: a page trusts nothing that it reads.

Shapes: T images with a thumbnail, N of them sampled, J ballots, P principal components.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from semppl.report.gaps import Damaged
from semppl.report.lenient import finite, read_json, strings

EXHIBIT, ADVICE, FEATURES = "exhibit.json", "advice.json", "features.npz"
_VERSION: Final = 1
_ROLES: Final = ("labelled", "unlabelled", "validation")
_LARGEST: Final = 1 << 40


@dataclass(frozen=True)
class Tiles:
    """Sheets of square thumbnails, filled row by row."""

    side: int
    columns: int
    per_sheet: int
    sheets: tuple[str, ...]


@dataclass(frozen=True)
class Card:
    """How the label of one image came about."""

    of: int
    """Its place in the sample."""
    ballots_J: tuple[int, ...]
    voters_J: tuple[tuple[tuple[int, float], ...], ...]
    """(image, cosine) of the neighbours of each ballot; image −1 is an entry of the queue that is none."""
    positives: tuple[int, ...]


@dataclass(frozen=True)
class Exhibit:
    """Images, votes, and a map."""

    step: int
    epoch: float
    classes: tuple[str, ...]
    ballots: int
    minimum_votes: int
    k: int
    tiles: Tiles
    names_T: tuple[str, ...]
    labels_T: tuple[int, ...]
    roles_T: tuple[str, ...]
    image_N: tuple[int, ...]
    vote_N: tuple[int, ...]
    votes_N: tuple[int, ...]
    tied_N: tuple[int, ...]
    right_N: tuple[int | None, ...]
    x_N: tuple[float, ...]
    y_N: tuple[float, ...]
    explained: tuple[float, ...]
    gallery: tuple[Card, ...]


@dataclass(frozen=True)
class Advice:
    """Thumbnails of the images that advice is about."""

    tiles: Tiles
    names: tuple[str, ...]


def read_exhibit(folder: Path) -> Exhibit:
    """All of it, or `Damaged` with what is wrong."""
    raw = _versioned(folder / EXHIBIT)
    try:
        return _exhibit(raw)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Damaged(f"{EXHIBIT} is damaged ({type(error).__name__}: {error})") from error


def read_advice(folder: Path) -> Advice:
    """The same of the thumbnails of advice."""
    raw = _versioned(folder / ADVICE)
    try:
        names = strings(raw["name"])
        return Advice(_tiles(raw["tiles"], len(names)), names)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Damaged(f"{ADVICE} is damaged ({type(error).__name__}: {error})") from error


def read_features(folder: Path, count: int) -> NDArray[np.float32]:
    """[N, P], without anything that would be executed on reading."""
    file = folder / FEATURES
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as content:
            features_NP = np.asarray(content["features_NP"], dtype=np.float32)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise Damaged(f"{FEATURES} cannot be read ({type(error).__name__})") from error
    if features_NP.ndim != 2 or len(features_NP) != count or not np.isfinite(features_NP).all():
        raise Damaged(f"{FEATURES} is damaged (it does not fit {count} images)")
    return features_NP


def _versioned(file: Path) -> dict[str, Any]:
    raw = read_json(file)
    if raw.get("version") != _VERSION:
        raise Damaged(f"{file.name} has version {raw.get('version')}, and this program knows {_VERSION}")
    return raw


def _exhibit(raw: dict[str, Any]) -> Exhibit:
    classes, images, sample = strings(raw["classes"]), raw["images"], raw["sample"]
    names_T, classes_Y = strings(images["name"]), len(classes)
    count, N = len(names_T), len(sample["image"])
    ballots = _integer("ballots", raw["ballots"], 0, _LARGEST)
    roles_T = strings(images["role"])
    if len(roles_T) != count or not set(roles_T) <= set(_ROLES):
        raise Damaged(f"{EXHIBIT} is damaged (images.role)")
    right_N = tuple(sample["right"])
    if len(right_N) != N or any(each not in (0, 1, None) for each in right_N):
        raise Damaged(f"{EXHIBIT} is damaged (sample.right)")
    return Exhibit(
        step=_integer("step", raw["step"], 0, _LARGEST),
        epoch=_floats("epoch", [raw["epoch"]], 1)[0],
        classes=classes,
        ballots=ballots,
        minimum_votes=_integer("minimum_votes", raw["minimum_votes"], 0, _LARGEST),
        k=_integer("k", raw["k"], 0, _LARGEST),
        tiles=_tiles(raw["tiles"], count),
        names_T=names_T,
        labels_T=_integers("images.label", images["label"], -1, classes_Y, count),
        roles_T=roles_T,
        image_N=_integers("sample.image", sample["image"], 0, count, N),
        vote_N=_integers("sample.vote", sample["vote"], -1, classes_Y, N),
        votes_N=_integers("sample.votes", sample["votes"], -1, ballots + 1, N),
        tied_N=_integers("sample.tied", sample["tied"], 0, 2, N),
        right_N=right_N,
        x_N=_floats("sample.x", sample["x"], N),
        y_N=_floats("sample.y", sample["y"], N),
        explained=_floats("explained", raw["explained"], len(raw["explained"])),
        gallery=tuple(_card(each, N, count, classes_Y) for each in raw["gallery"]),
    )


def _card(raw: dict[str, Any], N: int, count: int, classes_Y: int) -> Card:
    ballots_J = _integers("gallery.ballots", raw["ballots"], -1, classes_Y, len(raw["ballots"]))
    if len(raw["voters"]) != len(ballots_J):
        raise Damaged(f"{EXHIBIT} is damaged (gallery.voters)")
    voters_J = []
    for voters in raw["voters"]:
        images = _integers("gallery.voters", [image for image, _ in voters], -1, count, len(voters))
        cosines = _floats("gallery.voters", [cosine for _, cosine in voters], len(voters))
        voters_J.append(tuple(zip(images, cosines, strict=True)))
    return Card(
        of=_integer("gallery.of", raw["of"], 0, N),
        ballots_J=ballots_J,
        voters_J=tuple(voters_J),
        positives=_integers("gallery.positives", raw["positives"], -1, count, len(raw["positives"])),
    )


def _tiles(raw: dict[str, Any], count: int) -> Tiles:
    side = _integer("tiles.side", raw["side"], 1, 513)
    columns = _integer("tiles.columns", raw["columns"], 1, 257)
    per_sheet = _integer("tiles.per_sheet", raw["per_sheet"], 1, _LARGEST)
    sheets = strings(raw["sheets"])
    if any(Path(name).name != name for name in sheets):  # a name alone: nothing outside of the folder
        raise Damaged("the name of a sheet of thumbnails is no name of a file")
    if len(sheets) * per_sheet < count:
        raise Damaged(f"{len(sheets)} sheets of {per_sheet} thumbnails do not hold {count} images")
    return Tiles(side, columns, per_sheet, sheets)


def _integer(name: str, value: object, low: int, end: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < end:
        raise Damaged(f"{EXHIBIT} is damaged ({name} is {str(value)[:40]})")
    return value


def _integers(name: str, values: Sequence[object], low: int, end: int, count: int) -> tuple[int, ...]:
    """Each of low, …, end − 1."""
    if len(values) != count:
        raise Damaged(f"{EXHIBIT} is damaged ({name} has {len(values)} values instead of {count})")
    return tuple(_integer(name, value, low, end) for value in values)


def _floats(name: str, values: Sequence[object], count: int) -> tuple[float, ...]:
    numbers = [finite(value) for value in values]
    if len(numbers) != count or None in numbers:
        raise Damaged(f"{EXHIBIT} is damaged ({name})")
    return tuple(number for number in numbers if number is not None)
