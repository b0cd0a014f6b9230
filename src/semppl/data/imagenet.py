"""The subsets of ImageNet that SimCLR labelled: lists of file names, known by their hashes."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import UserError
from semppl.data.rows import numbered_lines

SUBSETS: Final[Mapping[str, tuple[str, int]]] = {
    "71e82a48ba78252683ae334c4d019ebd5c6e855b9599c1389fbe83eb9549cf17": ("1 %", 12_811),
    "6d09de11e7bdaf5b1f3b1f249b6183695f97310cdd20f0c03e7235b6b9392091": ("10 %", 128_116),
}
"""sha256 of the list's bytes → its name and its number of images."""


def read_subset(file: Path, paths: Sequence[str]) -> tuple[NDArray[np.bool_], str]:
    """Which of the images a list names, by their base names, and a phrase that says which list it is."""
    lines = _names(file)
    images: dict[str, list[int]] = {name: [] for name in lines}
    for image, path in enumerate(paths):
        if (found := images.get(_base_name(path))) is not None:
            found.append(image)
    if missing := [name for name, found in images.items() if not found]:
        raise UserError(
            f"{file}: line {lines[missing[0]]}: {missing[0]!r} is not below the folder "
            f"({len(missing):,} of {len(lines):,} names are missing): give the folder that holds all of them"
        )
    if doubtful := [name for name, found in images.items() if len(found) > 1]:
        name = doubtful[0]
        first, second = (paths[image] for image in images[name][:2])
        raise UserError(
            f"{file}: line {lines[name]}: {name!r} fits two files, {first} and {second}: remove one of them"
        )
    named_M = np.zeros(len(paths), dtype=np.bool_)
    named_M[[found[0] for found in images.values()]] = True
    return named_M, _describe(sha256(file.read_bytes()).hexdigest())


def _names(file: Path) -> dict[str, int]:
    """Base names in the order of the list, each with the number of its line."""
    lines: dict[str, int] = {}
    for number, line in numbered_lines(file):
        name = _base_name(line)
        if name in lines:
            raise UserError(
                f"{file}: line {number}: {name!r} is in line {lines[name]} already: keep one of them"
            )
        lines[name] = number
    if not lines:
        raise UserError(f"{file}: the list is empty: one file name a line is needed")
    return lines


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _describe(digest: str) -> str:
    if digest in SUBSETS:
        return f"the official {SUBSETS[digest][0]} list (sha256 {digest[:4]}…)"
    return f"a list of its own (sha256 {digest[:12]}…): not the official 1 % or 10 %"
