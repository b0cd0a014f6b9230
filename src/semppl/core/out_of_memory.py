"""What is said where there is no more memory."""

import re
from typing import Final

# torch of a CPU (of Windows, too) and of a GPU; numpy has a class for it
_REFUSALS: Final = ("DefaultCPUAllocator: can't allocate", "DefaultCPUAllocator: not enough", "out of memory")
_ASKED: Final = re.compile(r"allocate ([\d.]+) (bytes|[KMGTPE]iB)")
_GB: Final = 10**9
SMALLER: Final = "make --batch-size, --views.large-size, --net.width or --method.queue-capacity smaller"
"""What helps a training."""


def out_of_memory(error: BaseException) -> str | None:
    """In words, where this is what an error is about: that of a CPU has no class of its own in torch."""
    words = str(error)
    refused = isinstance(error, RuntimeError) and any(refusal in words for refusal in _REFUSALS)
    if not refused and not isinstance(error, MemoryError):
        return None
    asked = _ASKED.search(words)
    if asked is None:
        return "out of memory"
    number, unit = asked.groups()
    size = f"{float(number) / _GB:,.1f} GB" if unit == "bytes" else f"{number} {unit}"
    return f"out of memory (tried to get {size})"
