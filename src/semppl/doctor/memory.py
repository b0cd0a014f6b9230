"""How much memory there is, and how much was used at the most."""

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

# beyond this a limit is none
_NO_LIMIT: Final = 2**60


def host_memory(root: Path = Path("/")) -> tuple[int, int]:
    """(all, free) bytes that this process may have: the machine's, or less where a container says so."""
    total, free = _of_machine(root)
    for limit, used in (
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, now = _number(root / limit), _number(root / used)
        if most is not None and now is not None and most < _NO_LIMIT:
            total, free = min(total, most), min(free, max(most - now, 0))
    return total, free


def _of_machine(root: Path) -> tuple[int, int]:
    with suppress(OSError):
        text = (root / "proc/meminfo").read_text()
        found = {name: int(kilobytes) * 1024 for name, kilobytes in re.findall(r"(\w+): +(\d+) kB", text)}
        if "MemTotal" in found and "MemAvailable" in found:
            return found["MemTotal"], found["MemAvailable"]
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return pages, pages


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def free_memory(device: torch.device) -> int:
    """Bytes that a run on the device may use, those that this process holds already included."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    return host_memory()[1] + _of_process("VmRSS")


def forget_peak_(device: torch.device) -> None:
    """Let `peak_memory` count from now on, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: torch.device) -> int:
    """Bytes held at the most: of tensors on a GPU, of the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _of_process("VmHWM")


def _of_process(name: str) -> int:
    with suppress(OSError):
        text = Path("/proc/self/status").read_text()
        if found := re.search(rf"{name}:\s+(\d+) kB", text):
            return int(found[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
