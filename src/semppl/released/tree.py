"""The online network in the content of a checkpoint: {module of Haiku: {leaf: array}}, without replicas.

The released code takes the first entry of each array, since training kept one copy for each device. Whether
a file has that axis is told by ranks, once for the whole file: no array has the same rank with it as another
of its name without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from semppl.core.errors import UserError
from semppl.released.standins import line

Leaves = Mapping[str, Mapping[str, NDArray[np.float32]]]
_Raw = Mapping[str, Mapping[str, NDArray[Any]]]

# the largest encoder has 2022 of state; a short file can have one large mapping under many names
_MOST_ARRAYS: Final = 20_000
# ranks of Haiku's arrays without replicas, by their name: convolutions and linear layers, and norms over each
_RANKS: Final[Mapping[str, tuple[int, ...]]] = {
    "w": (2, 4),
    "b": (1,),
    "scale": (2, 4),
    "offset": (2, 4),
    "average": (2, 4),
    "hidden": (2, 4),
    "counter": (0,),
}


@final
@dataclass(frozen=True)
class Tree:
    """Parameters and state of the online network, as they were after `step` updates."""

    params: Leaves
    state: Leaves
    step: int


def read_tree(content: object, name: str) -> Tree:
    """Find the online network; `name` is the file's, for messages."""
    experiment = _entry(content, "experiment_state", name)
    raw = [_raw(_entry(experiment, part, name), part, name) for part in ("online_params", "online_state")]
    has_replicas = _has_replicas(raw, name)
    ready: dict[int, NDArray[np.float32]] = {}

    def first(array: NDArray[Any], where: str) -> NDArray[np.float32]:
        """An array that is there many times is turned to float32 once."""
        if id(array) not in ready:
            ready[id(array)] = _first(array, has_replicas, where)
        return ready[id(array)]

    params, state = (
        {
            module: {leaf: first(x, _where(name, module, leaf)) for leaf, x in leaves.items()}
            for module, leaves in part.items()
        }
        for part in raw
    )
    return Tree(params, state, _step(_entry(content, "step", name), name))


def _where(name: str, *keys: object) -> str:
    return f"{name}: {_shown(*keys)}"


def _shown(*keys: object) -> str:
    return line(" ".join(key if isinstance(key, str) else type(key).__name__ for key in keys))


def _entry(content: object, key: str, name: str) -> object:
    if not isinstance(content, Mapping):
        raise UserError(f"{name}: {key} is looked for in a {type(content).__name__}, not in a mapping")
    if key not in content:
        there = ", ".join(sorted(line(other) for other in content if isinstance(other, str))[:8])
        raise UserError(f"{name}: no {key} (there is {there or 'nothing'}): not a checkpoint of pre-training")
    return content[key]


def _raw(content: object, part: str, name: str) -> _Raw:
    """Two levels of names and arrays, as Haiku has them."""
    if not isinstance(content, Mapping):
        raise UserError(f"{name}: {part} is a {type(content).__name__}, not a mapping")
    count = 0
    for module, leaves in content.items():
        if not isinstance(module, str) or not isinstance(leaves, Mapping):
            raise UserError(f"{_where(name, part, module)} is a {type(leaves).__name__}, not a mapping")
        count += len(leaves)
        if count > _MOST_ARRAYS:
            raise UserError(f"{name}: {part} has more than {_MOST_ARRAYS:,} arrays, more than any encoder")
        for leaf, array in leaves.items():
            if not isinstance(leaf, str) or not isinstance(array, np.ndarray | np.generic):
                raise UserError(f"{_where(name, module, leaf)} is a {type(array).__name__}, not an array")
    return {module: {leaf: np.asarray(x) for leaf, x in leaves.items()} for module, leaves in content.items()}


def _each(raw: list[_Raw]) -> Iterator[tuple[str, str, NDArray[Any]]]:
    for part in raw:
        for module, leaves in part.items():
            for leaf, array in leaves.items():
                yield module, leaf, array


def _has_replicas(raw: list[_Raw], name: str) -> bool:
    """All arrays have the same number of replicas, or none has any."""
    found: dict[int, str] = {}
    for module, leaf, array in _each(raw):
        if leaf not in _RANKS:
            continue
        if array.ndim in _RANKS[leaf]:
            replicas = 0
        elif array.ndim - 1 in _RANKS[leaf] and len(array):
            replicas = len(array)
        else:
            where = _where(name, module, leaf)
            raise UserError(f"{where} has the shape {array.shape}, which no layer of Haiku has")
        found.setdefault(replicas, f"{_shown(module, leaf)} {array.shape}")
    if len(found) > 1:
        shown = " and ".join(list(found.values())[:2])
        raise UserError(f"{name}: not of the same number of replicas: {shown}")
    return any(found)


def _first(array: NDArray[Any], has_replicas: bool, where: str) -> NDArray[np.float32]:
    """The first replica in float32, which must be of numbers."""
    if array.dtype.kind not in "fiu" or not array.size or (has_replicas and not array.ndim):
        raise UserError(f"{where} is of {array.dtype} and shape {array.shape}, where numbers are needed")
    with np.errstate(over="ignore"):
        number = np.asarray(array[0] if has_replicas else array, np.float32)
    if not np.isfinite(number).all():
        raise UserError(f"{where} has values that are not finite")
    return number


def _step(step: object, name: str) -> int:
    """A number, or one for each replica."""
    if isinstance(step, np.ndarray | np.generic) and step.size and step.dtype.kind in "iu":
        step = int(np.ravel(step)[0])
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63:
        raise UserError(f"{name}: step is no number of updates, but a {type(step).__name__}")
    return step
