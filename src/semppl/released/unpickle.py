"""A reader of pickles that runs nothing: plain values, arrays, and the mappings of Haiku.

A pickle is a program. Here it may only build plain containers and call what `standins` has, and what those
calls make is counted: a few bytes could ask again and again for a copy of one large array. Honest files need
three times their size at most, for bfloat16 as protocol 2 writes it: the bytes, and a float32 for each two.
"""

import pickle
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, NoReturn, final

import numpy as np

from semppl.core.errors import UserError
from semppl.released.standins import KNOWN, NEEDLESS, Call, Dtype, Record, Refused, line, restore_, size

_NOT_PICKLES: Final = {
    b"\x1f\x8b": "is a gzip archive, not a pickle: unpack it first",
    b"PK": "is a zip archive, such as torch.save writes, not a pickle of DeepMind's",
    b"<": "is a web page, not a pickle: the download went wrong",
}
# what the reader raises on bytes that make no sense
_DAMAGE: Final = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    struct.error,
)


def read_pickle(path: Path) -> object:
    """The content of a file; mappings are dicts, arrays numpy's, named tuples dicts of their fields."""
    try:
        with path.open("rb") as file:
            _check_beginning(file.peek(2)[:2])
            return _Reader(file, 4 * path.stat().st_size + 2**24).load()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Refused as refusal:
        raise UserError(f"{path}: {refusal}") from refusal
    except _DAMAGE as error:
        raise UserError(f"{path}: is damaged or cut off ({type(error).__name__}): fetch it again") from error


def _check_beginning(start: bytes) -> None:
    if not start:
        raise Refused("is empty: the download went wrong")
    for magic, meaning in _NOT_PICKLES.items():
        if start.startswith(magic):
            raise Refused(meaning)
    if start[:1] != pickle.PROTO:
        raise Refused("is not a pickle, or one of protocol 0 or 1, which no release has")


@final
class _Reader(pickle._Unpickler):
    """The reader of the standard library in Python, with fewer instructions: those that call are ours.

    The faster one in C would fill memory at the wish of a file (an entry of the memo can have any number),
    and takes what it finds in the registry of extensions for granted. Nearly all bytes are in a few large
    arrays, so that speed is not lost.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]]
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: BinaryIO, allowance: int) -> None:
        super().__init__(file)
        self.allowance = allowance

    def find_class(self, module: str, name: str) -> object:
        """One of ours, or a refusal."""
        if (module, name) not in KNOWN:
            raise Refused(f"refers to {line(f'{module}.{name}')}, {NEEDLESS}")
        return KNOWN[module, name]

    def reduce_(self) -> None:
        """Call a stand-in."""
        arguments, call = self.stack.pop(), self.stack.pop()
        if not isinstance(call, Call) or not isinstance(arguments, tuple):
            raise Refused(f"calls a {type(call).__name__}, {NEEDLESS}")
        made = call.of(arguments)
        self._count_(made)
        self.stack.append(made)

    def new_(self) -> None:
        """Make a named tuple, here a dict."""
        values, record = self.stack.pop(), self.stack.pop()
        if not isinstance(record, Record) or not isinstance(values, tuple):
            raise Refused(f"makes an object of a {type(record).__name__}, {NEEDLESS}")
        made = record.fill(values)
        self._count_(made)
        self.stack.append(made)

    def build_(self) -> None:
        """Give an array, or a type of numbers, its state."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Dtype):
            target.restore_(state)
        elif isinstance(target, np.ndarray):
            restore_(target, state)
            self._count_(target)
        else:
            raise Refused(f"changes a {type(target).__name__}, {NEEDLESS}")

    def _count_(self, made: object) -> None:
        """One call makes no more than a small multiple of the file; it is many that have to be stopped."""
        self.allowance -= size(made)
        if self.allowance < 0:
            raise Refused("asks for more memory than a file of its size needs")

    def set_item_(self) -> None:
        """Put one entry into a dict."""
        value, key = self.stack.pop(), self.stack.pop()
        self._set_([key, value])

    def set_items_(self) -> None:
        """Put several entries into a dict."""
        self._set_(self.pop_mark())

    def _set_(self, items: list[Any]) -> None:
        """Keys are words and numbers: to hash tuples within tuples, a million deep, would end the process."""
        target = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(target) is not dict or type(key) not in (str, bytes, int):
                kinds = f"a {type(target).__name__} with a {type(key).__name__} as key"
                raise Refused(f"has {kinds}, {NEEDLESS}")
            target[key] = value


_INSTRUCTIONS: Final = {ord(each.code): each.name for each in pickletools.opcodes}


def _refusal(code: int) -> Callable[[_Reader], NoReturn]:
    known = _INSTRUCTIONS.get(code)

    def refuse(_: _Reader) -> NoReturn:
        raise Refused(f"uses {known} of pickle, {NEEDLESS}" if known else "is not a pickle, or is damaged")

    return refuse


_PLAIN: Final = (
    "PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT "
    "SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE "
    "GLOBAL STACK_GLOBAL"
)
_standard = pickle._Unpickler.dispatch
_Reader.dispatch = {
    **{code: _refusal(code) for code in range(256)},
    **{code: _standard[code] for name in _PLAIN.split() for code in getattr(pickle, name)},
    # as immutable bytes, of which no more are taken than the file has
    pickle.BYTEARRAY8[0]: _standard[pickle.BINBYTES8[0]],
    pickle.REDUCE[0]: _Reader.reduce_,
    pickle.NEWOBJ[0]: _Reader.new_,
    pickle.BUILD[0]: _Reader.build_,
    pickle.SETITEM[0]: _Reader.set_item_,
    pickle.SETITEMS[0]: _Reader.set_items_,
}
