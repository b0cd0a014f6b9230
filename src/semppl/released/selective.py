"""Which arrays of a block are those of its selective kernels, when nobody knows their names.

The released code has no selective kernels, so the names in those files are its authors' secret. Shapes tell
most: two grouped 3×3 kernels, one layer down to the reduced width, one layer up to both paths or one to
each, and a norm for all but the last. Where two have the same shape the order of their names decides, numbers
within names counted as numbers: the first is the path without dilation, unless its name says that it is
dilated. Norms and layers of a path have the order of the paths: by the words that tell them apart where these
are the same (`conv`, `conv_1` and `conv_norm`, `conv_1_norm`), otherwise by their own names. One layer to
both paths has the outputs of the first path first.
"""

import re
from collections import Counter
from collections.abc import Mapping

from semppl.core.errors import UserError
from semppl.released.standins import line

Shape = tuple[int, ...]


def match_kernels(
    kernels: Mapping[str, Shape], norms: Mapping[str, int], *, path: Shape, reduced: int, where: str
) -> dict[str, tuple[str, ...]]:
    """The modules of a file for each layer of `nets.selective_kernel`, by its name there.

    `kernels` has the shape of each kernel in question, `norms` the width of each norm; `path` is the shape of
    a path's kernel [3, 3, middle/groups, middle]; `where` names file and block.
    """
    middle = path[-1]
    paths = _named(kernels, path)
    down, both, each = (
        _named(kernels, (inputs, outputs), (1, 1, inputs, outputs))
        for inputs, outputs in ((middle, reduced), (reduced, 2 * middle), (reduced, middle))
    )
    wide, narrow = ([name for name in _ordered(norms) if norms[name] == size] for size in (middle, reduced))
    counted = tuple(len(names) for names in (paths, down, both, each, wide, narrow))
    if counted not in ((2, 1, 1, 0, 2, 1), (2, 1, 0, 2, 2, 1)):
        there = [f"{line(name)} {shape}" for name, shape in kernels.items()]
        there += [f"{line(name)} ({width},)" for name, width in norms.items()]
        rest = f" and {len(there) - 20} more" if len(there) > 20 else ""
        raise UserError(
            f"{where}: no selective kernels: expected two of {path}, one of {(middle, reduced)}, one of "
            f"{(reduced, 2 * middle)} or two of {(reduced, middle)}, and norms of {middle}, {middle} and "
            f"{reduced}; found {', '.join(there[:20]) or 'none'}{rest}"
        )
    wide = _like(paths, wide)
    return {
        "paths.0.conv": (paths[0],),
        "paths.0.bn": (wide[0],),
        "paths.1.conv": (paths[1],),
        "paths.1.bn": (wide[1],),
        "attn.fc_reduce": (down[0],),
        "attn.bn": (narrow[0],),
        "attn.fc_select": tuple(both or _like(paths, each)),
    }


def _named(kernels: Mapping[str, Shape], *shapes: Shape) -> list[str]:
    return [name for name in _ordered(kernels) if kernels[name] in shapes]


def _ordered(names: Mapping[str, object]) -> list[str]:
    """As a person would: path_2 before path_10, what is dilated last."""

    def rank(name: str) -> tuple[bool, list[tuple[int, str]]]:
        parts = re.split(r"([0-9]{1,9})", name)
        return "dilat" in name, [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    return sorted(names, key=rank)


def _like(paths: list[str], layers: list[str]) -> list[str]:
    """Two layers in the order of the paths whose words they have."""
    return layers[::-1] if _apart(*layers) == _apart(*paths)[::-1] else layers


def _apart(first: str, second: str) -> tuple[Counter[str], Counter[str]]:
    """The words that only one of two names has."""
    words, others = (Counter(re.split(r"[/_]", name)) for name in (first, second))
    return words - others, others - words
