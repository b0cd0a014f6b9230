"""What a pickle may call: functions of ours under the names of those of numpy, Haiku, jax and dill.

They make dicts and arrays from parts that a file gives, and believe none of them. Nothing is imported, or
called, because a file says so.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NEEDLESS: Final = "which no checkpoint of this kind needs: nothing was run"
_ENTRY: Final = 100  # bytes of an object, or of an entry of one
_MOST_FIELDS, _MOST_AXES, _MOST_ARGUMENTS = 1000, 8, 8


class Refused(Exception):
    """Something that a checkpoint has no use for."""


def line(text: str) -> str:
    """A name from a file, on one line and not too long."""
    return repr(text[:120])[1:-1]


def size(made: object) -> int:
    """Bytes that a stand-in has made, roughly; what may be shared with others counts again."""
    match made:
        case np.ndarray() | np.generic():
            return _ENTRY + made.nbytes
        case bytes():
            return _ENTRY + len(made)
        case dict():
            return _ENTRY + len(made) * _ENTRY
        case Record(fields):
            return _ENTRY + len(fields) * _ENTRY
        case _:
            return _ENTRY


@final
@dataclass(frozen=True, slots=True)
class Call:
    """Stands in for a function."""

    run: Callable[..., object]

    def of(self, arguments: tuple[object, ...]) -> object:
        """To hand over many would take its time, at each of many calls."""
        if len(arguments) > _MOST_ARGUMENTS:
            raise Refused(f"calls a function with {len(arguments)} arguments, {NEEDLESS}")
        return self.run(*arguments)


@final
@dataclass(frozen=True, slots=True)
class Record:
    """Stands in for a class of named tuples."""

    fields: tuple[str, ...]

    def fill(self, values: Sequence[object]) -> dict[str, object]:
        """A dict in place of a tuple."""
        if len(values) != len(self.fields):
            raise Refused(f"has a record of {len(self.fields)} fields with {len(values)} values")
        return dict(zip(self.fields, values, strict=True))


@final
class Dtype:
    """Stands in for numpy's: the pickle says the order of bytes after it has made the object."""

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "<"

    def restore_(self, state: object) -> None:
        """Take the order of bytes; types with fields or of parts of arrays are refused."""
        match state:
            case (int(), "<" | ">" | "|" | "=" as order, None, None, None, int(), int(), int()):
                self.order = order
            case _:
                raise Refused(f"has an array of a compound type, {NEEDLESS}")

    def read(self, data: bytes) -> Array:
        """The numbers in `data`; bfloat16 is the upper half of a float32."""
        if self.code == _BFLOAT16:
            upper = np.frombuffer(data, f"{self.order}u2").astype(np.uint32)
            return (upper << 16).view(np.float32)
        return np.frombuffer(data, self.order + self.code)


_BFLOAT16: Final = "bfloat16"
_CODES: Final = ("b1", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", _BFLOAT16)


def _dtype(code: object, *_: object) -> Dtype:
    if not isinstance(code, str) or code not in _CODES:
        shown = line(code) if isinstance(code, str) else type(code).__name__
        raise Refused(f"has an array of type {shown}, {NEEDLESS}")
    return Dtype(code)


def _numbers(data: object, dtype: object, shape: object, order: object) -> Array:
    if not isinstance(dtype, Dtype) or not isinstance(data, bytes):
        raise Refused("has an array without a type or without numbers")
    if not isinstance(shape, tuple):
        raise Refused("has an array without a shape")
    if len(shape) > _MOST_AXES:
        raise Refused(f"has an array of {len(shape)} axes, {NEEDLESS}")
    if not all(type(length) is int and 0 <= length < 2**40 for length in shape):
        raise Refused("has an array without a shape")
    flat = dtype.read(data)
    if math.prod(shape) != flat.size:
        raise Refused(f"has an array of {flat.size} numbers for the shape {shape}")
    layout: Literal["C", "F"] = "F" if order == "F" else "C"
    return flat.reshape(shape, order=layout)


def _content(state: object) -> Array:
    """An array from the state that numpy writes."""
    match state:
        case (int(), shape, dtype, bool() as fortran, data):
            return _numbers(data, dtype, shape, "F" if fortran else "C")
        case _:
            raise Refused("has an array in an unknown form")


def restore_(array: Array, state: object) -> None:
    """Fill an array that is there already: the memo of the pickle knows it."""
    content = _content(state)
    whole = (1, content.shape, content.dtype, False, content.tobytes())
    array.__setstate__(whole)  # type: ignore[arg-type]  # numpy takes the bool of Python alone


def _blank(kind: object, *_: object) -> Array:
    """An array whose content comes later."""
    if kind is not _NDARRAY:
        raise Refused(f"has an array of a kind of its own, {NEEDLESS}")
    return np.empty(0, np.int8)


def _array(make: object, arguments: object, state: object, *_: object) -> Array:
    """As dill and jax write an array: how numpy would begin it, and its content."""
    if make is not _BLANK or not isinstance(arguments, tuple):
        raise Refused(f"has an array that is made by something else than numpy, {NEEDLESS}")
    _BLANK.of(arguments)
    return _content(state)


def _scalar(dtype: object, data: object) -> object:
    return _numbers(data, dtype, (), "C")[()]


def _bytes(text: object = "", encoding: object = "latin1") -> bytes:
    """Bytes as protocol 2 writes them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise Refused(f"encodes a text, {NEEDLESS}")
    return text.encode("latin1")


def _mapping(content: object = None) -> dict[object, object]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise Refused(f"has a mapping made of a {type(content).__name__}, {NEEDLESS}")
    return content


def _record(_name: object, fields: object, *_: object) -> Record:
    if not isinstance(fields, tuple):
        raise Refused("has a record without names")
    if len(fields) > _MOST_FIELDS:
        raise Refused(f"has a record of {len(fields)} fields, {NEEDLESS}")
    if not all(isinstance(field, str) for field in fields) or len(set(fields)) < len(fields):
        raise Refused("has a record without names of its own for its fields")
    return Record(fields)


def _type(name: object) -> Call:
    """As dill names a built-in type: the one of empty bytes."""
    if name != "bytes":
        shown = line(name) if isinstance(name, str) else type(name).__name__
        raise Refused(f"refers to the type {shown}, {NEEDLESS}")
    return _BYTES


def _never(*_: object) -> NoReturn:
    raise Refused(f"makes an array of nothing, {NEEDLESS}")


_BLANK, _NDARRAY, _BYTES = Call(_blank), Call(_never), Call(_bytes)
_HAIKU: Final = "FlatMapping FlatMap frozendict to_immutable_dict to_haiku_dict to_dict"
_TABLE: Final[Sequence[tuple[str, str, object]]] = (
    ("numpy", "ndarray", _NDARRAY),
    ("numpy", "dtype", Call(_dtype)),
    # before numpy 2.0, and since
    ("numpy.core.multiarray numpy._core.multiarray", "_reconstruct", _BLANK),
    ("numpy.core.multiarray numpy._core.multiarray", "scalar", Call(_scalar)),
    ("numpy.core.numeric numpy._core.numeric", "_frombuffer", Call(_numbers)),
    ("ml_dtypes jax._src.dtypes", "bfloat16", _BFLOAT16),
    ("haiku._src.data_structures", _HAIKU, Call(_mapping)),
    ("collections", "OrderedDict", Call(_mapping)),
    # jax since 0.4, and 0.3; before that its arrays were written as numpy's
    ("jax._src.array", "_reconstruct_array", Call(_array)),
    ("jax._src.device_array", "reconstruct_device_array", Call(_array)),
    ("dill._dill dill.dill", "_create_array", Call(_array)),
    ("dill._dill dill.dill", "_create_namedtuple", Call(_record)),
    ("dill._dill dill.dill", "_load_type", Call(_type)),
    ("_codecs", "encode", _BYTES),
    ("__builtin__", "bytes", _BYTES),
    # the one part of BYOL's optimiser state that is no named tuple
    ("byol.utils.optimizers semppl.utils.optimizers", "AddWeightDecayState", Record(())),
)
KNOWN: Final[Mapping[tuple[str, str], object]] = {
    (module, name): stand_in
    for modules, names, stand_in in _TABLE
    for module in modules.split()
    for name in names.split()
}
"""By module and name, compared whole: a dotted name is none of these."""
