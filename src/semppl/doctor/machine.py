"""What is here: versions, devices, backends, precision, memory, disk. Knows torch alone, so that it can also
say that torchvision does not load.
"""

import platform
import re
import shutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist

from semppl import __version__
from semppl.core.cores import usable_cores
from semppl.doctor.groups import try_group
from semppl.doctor.memory import host_memory

_DRIVER: Final = Path("/proc/driver/nvidia/version")
_PROCESSORS: Final = Path("/proc/cpuinfo")
_SHARED: Final = Path("/dev/shm")


@dataclass(frozen=True)
class Gpu:
    """One device."""

    name: str
    memory: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What there is to say about it; a text under `…_problem` says why something does not work."""

    semppl: str
    python: str
    platform: str
    torch: str
    torchvision: str
    torchvision_problem: str | None
    cuda: str | None
    driver: str | None
    gpus: tuple[Gpu, ...]
    device: str
    nccl: str | None
    nccl_problem: str | None
    gloo_problem: str | None
    precision_problem: str | None
    bf16_problem: str | None
    cores: int
    memory: int
    memory_free: int
    shared_memory: int | None
    disk: str
    disk_free: int


def look_around(device: torch.device, place: Path) -> Machine:
    """Everything about this machine and the device that training would use; files would go to `place`."""
    version, problem = _torchvision()
    memory, memory_free = host_memory()
    there = _existing(place)
    on_gpu = device.type == "cuda"
    return Machine(
        semppl=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        torch=torch.__version__,
        torchvision=version,
        torchvision_problem=problem,
        cuda=torch.version.cuda,
        driver=driver_version(_DRIVER),
        gpus=_gpus(),
        device=torch.cuda.get_device_name(device) if on_gpu else cpu_name(_PROCESSORS),
        nccl=_nccl(),
        nccl_problem=try_group("nccl", device) if on_gpu else None,
        gloo_problem=try_group("gloo", torch.device("cpu")),
        precision_problem=product_problem(device, torch.float32),
        bf16_problem=product_problem(device, torch.bfloat16),
        cores=usable_cores(),
        memory=memory,
        memory_free=memory_free,
        shared_memory=shutil.disk_usage(_SHARED).total if _SHARED.is_dir() else None,
        disk=str(there),
        disk_free=shutil.disk_usage(there).free,
    )


def driver_version(path: Path) -> str | None:
    """NVIDIA's, where its driver is loaded."""
    try:
        found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", path.read_text())
    except OSError:
        return None
    return found[0] if found else None


def cpu_name(path: Path) -> str:
    """As its maker calls it, where the system says so."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", path.read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def product_problem(device: torch.device, dtype: torch.dtype) -> str | None:
    """What is wrong with a product of two matrices of ones, or None."""
    try:
        ones = torch.ones(64, 64, device=device, dtype=dtype)
        right = bool((ones @ ones == 64).all())
    except RuntimeError as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    if not right:
        return "a product of matrices came out wrong"
    emulated = dtype is torch.bfloat16 and device.type == "cuda" and not torch.cuda.is_bf16_supported(False)
    return "this GPU only imitates it, slowly" if emulated else None


def _torchvision() -> tuple[str, str | None]:
    """Its version, and why its operators do not load: that is how a version for another torch shows."""
    try:
        version = str(import_module("torchvision").__version__)
        import_module("torchvision.ops").nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except (ImportError, RuntimeError, AttributeError, OSError) as error:
        return "?", (str(error).splitlines() or [type(error).__name__])[0]
    return version, None


def _gpus() -> tuple[Gpu, ...]:
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return tuple(Gpu(each.name, each.total_memory) for each in found)


def _nccl() -> str | None:
    if not (dist.is_available() and dist.is_nccl_available()):
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _existing(place: Path) -> Path:
    place = place.absolute()
    return next(folder for folder in (place, *place.parents) if folder.is_dir())
