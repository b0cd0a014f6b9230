"""The memory of the C library, which holds all tensors of a CPU."""

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
# the most that every version of glibc accepts; what is larger goes back to the system when it is freed
_LARGE: Final = 32 * 2**20
_MOST: Final = 2**31 - 1


def keep_freed_memory_() -> bool:
    """Keep up to 2 GiB of what is freed for the next use, where the C library is glibc; whether it is.

    By default activations of some MB are given back to the system after each step and fetched again, page by
    page, in the next: a tenth of a step on two cores (docs/performance.md).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    return all(mallopt(name, value) for name, value in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _MOST)))
