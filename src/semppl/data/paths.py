"""Many strings in little memory: one buffer of bytes, and where each string ends.

A million paths of 40 characters take 48 MB this way, and more than 100 MB as a list.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, final, overload

import numpy as np
from numpy.typing import NDArray

# a file name that is not UTF-8 comes from the system with surrogates and goes back to the same bytes
_CODE: Final = ("utf-8", "surrogateescape")
_ROWS: Final = 65_536
"""Strings that are copied or read at a time."""


@final
class Paths(Sequence[str]):
    """Strings that do not change, made from anything that yields them one by one."""

    __slots__ = ("_offsets", "_text")

    def __init__(self, strings: Iterable[str] = ()) -> None:
        text, offsets = bytearray(), array("q", [0])
        for string in strings:
            text += string.encode(*_CODE)
            offsets.append(len(text))
        self._text: bytes = bytes(text)
        self._offsets: NDArray[np.int64] = np.array(offsets, dtype=np.int64)

    @classmethod
    def from_buffer(cls, text: bytes, offsets: NDArray[np.int64]) -> "Paths":
        """What `text` and `offsets` of others hold; anything that cannot be theirs is a ValueError."""
        fits = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and offsets[-1] == len(text)
        if not fits or (np.diff(offsets) < 0).any():
            raise ValueError("offsets do not rise from 0 to the length of the text")
        made = cls()
        made._text, made._offsets = text, offsets.astype(np.int64)
        return made

    @property
    def text(self) -> bytes:
        """All strings, one after the other."""
        return self._text

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each string begins, and at last where the last one ends."""
        return self._offsets

    def take(self, index: slice | NDArray[np.integer[Any]]) -> "Paths":
        """Some of them, in the order asked for. Negative numbers count from the end."""
        if isinstance(index, slice):
            index = np.arange(len(self), dtype=np.int64)[index]
        if not np.issubdtype(index.dtype, np.integer):
            raise TypeError(f"an index of {index.dtype}: integers are needed")
        index = index.astype(np.int64)
        if ((index < -len(self)) | (index >= len(self))).any():
            raise IndexError(f"an index is out of range: there are {len(self)} strings")
        index[index < 0] += len(self)
        starts, ends = self._offsets[index], self._offsets[index + 1]
        text = bytearray()
        for first in range(0, len(index), _ROWS):
            part = slice(first, first + _ROWS)
            pairs = zip(starts[part].tolist(), ends[part].tolist(), strict=True)
            text += b"".join([self._text[start:end] for start, end in pairs])
        offsets = np.zeros(len(index) + 1, dtype=np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        return Paths.from_buffer(bytes(text), offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Paths": ...
    def __getitem__(self, index: int | slice) -> "str | Paths":
        if isinstance(index, slice):
            return self.take(index)
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"{index} is out of range: there are {len(self)} strings")
        return self._text[self._offsets[place] : self._offsets[place + 1]].decode(*_CODE)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _ROWS):
            for start, end in pairwise(self._offsets[first : first + _ROWS + 1].tolist()):
                yield self._text[start:end].decode(*_CODE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Paths):
            return NotImplemented
        return self._text == other._text and np.array_equal(self._offsets, other._offsets)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Paths({len(self)} strings)"
