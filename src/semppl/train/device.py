"""Where a run runs: the device, its memory for pixels, and the processes beside it."""

import gc
import os

import torch

from semppl.config import Config
from semppl.core.cores import usable_cores
from semppl.core.errors import UserError


def choose_device(name: str) -> torch.device:
    """The word "auto" takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"unknown device {name!r}: use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device {name!r} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device {name!r}: this machine has {torch.cuda.device_count()} usable GPUs")
    return device


def require_precision(precision: str, device: torch.device) -> None:
    """Refuse what the device cannot train with."""
    if precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs: on a CPU gradients of tiny maps are not always finite")


def memory_layout(device: torch.device) -> torch.memory_format:
    """Of images and convolutions: channels last, which oneDNN, too, is faster with (docs/performance.md)."""
    by_pixel = device.type == "cuda" or torch.backends.mkldnn.is_available()
    return torch.channels_last if by_pixel else torch.contiguous_format


def wait_for(device: torch.device) -> None:
    """Until its steps are done; batches that are made beside them go on."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def free_memory_(device: torch.device) -> None:
    """What was tried and is no longer needed is not in the way of what follows."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def describe_device(device: torch.device) -> str:
    """For beside a number."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def choose_workers(config: Config, device: torch.device) -> int:
    """Processes that read files: training on the CPU needs cores, too."""
    cores = usable_cores()
    default = cores if device.type == "cuda" else max(cores // 2, 1)
    return default if config.data.workers is None else config.data.workers


def memory_for_pixels(device: torch.device) -> int:
    """A quarter of the device's memory, and at most 4 GiB."""
    if device.type == "cuda":
        there = torch.cuda.get_device_properties(device).total_memory
    else:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(there // 4, 2**32)
