"""What is in the way of training here, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from semppl.core.counted import counted
from semppl.doctor.machine import Machine
from semppl.doctor.words import YEAR, duration, size

GB: Final = 10**9


@dataclass(frozen=True)
class Problem:
    """`fatal`: nothing can be trained before it is solved."""

    words: str
    fatal: bool = False


def about_machine(machine: Machine, device_type: str, precision: str) -> list[Problem]:
    """Before anything is tried."""
    return [*_software(machine, device_type, precision), *_hardware(machine), *_ranks(machine)]


def _software(machine: Machine, device_type: str, precision: str) -> Iterator[Problem]:
    if problem := machine.torchvision_problem:
        yield Problem(
            f"torchvision does not load with torch {machine.torch} ({problem}): install the pair that "
            "belongs together (pip install -U torch torchvision)",
            fatal=True,
        )
    if problem := machine.precision_problem:
        yield Problem(
            f"{machine.device} cannot multiply ({problem}): this torch is built for other devices, install "
            "one for this (https://pytorch.org), or give --device cpu",
            fatal=True,
        )
    elif device_type == "cuda" and precision != "fp32" and (problem := machine.bf16_problem):
        yield Problem(f"{machine.device} has no bf16 ({problem}): give --precision fp32")
    if machine.cuda is None and machine.driver is not None:
        yield Problem(
            f"there is an NVIDIA driver ({machine.driver}) and torch {machine.torch} is built without CUDA: "
            "install a build with it (https://pytorch.org)"
        )
    if machine.cuda is not None and not machine.gpus:
        why = "no NVIDIA driver is loaded" if machine.driver is None else "none can be used"
        yield Problem(
            f"torch is built for CUDA {machine.cuda}, and {why}: training uses the CPU; if there is a GPU, "
            "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
        )


def _hardware(machine: Machine) -> Iterator[Problem]:
    if machine.shared_memory is not None and machine.shared_memory < GB:
        yield Problem(
            f"/dev/shm has {size(machine.shared_memory)}, through which workers hand over images: give it "
            "1 GB or more (docker run --shm-size 8g), or read without workers (--workers 0)"
        )
    if machine.cores < len(machine.gpus):
        yield Problem(
            f"{machine.cores} cores for {len(machine.gpus)} GPUs: each needs several to read images "
            "(SLURM: --cpus-per-task), unless they fit into its memory"
        )
    if machine.memory_free < GB:
        yield Problem(f"{size(machine.memory_free)} of memory are free: end other programs first")
    if machine.disk_free < GB:
        yield Problem(f"{machine.disk} has {size(machine.disk_free)} left: make room for checkpoints")


def _ranks(machine: Machine) -> Iterator[Problem]:
    if problem := machine.gloo_problem:
        yield Problem(f"several processes cannot train together: gloo says {problem!r} (see docs/scale.md)")
    if len(machine.gpus) and (problem := machine.nccl_problem):
        yield Problem(
            f"several GPUs cannot train together: NCCL says {problem!r} (NCCL_DEBUG=INFO says more)"
        )


def about_plan(found: dict[str, Any], disk_free: int) -> list[Problem]:
    """After it was tried: `found` is what `examine` returns."""
    return [*_batch(found), *_loader(found), *_disk(found, disk_free), *_time(found)]


def _batch(found: dict[str, Any]) -> Iterator[Problem]:
    batch, most = found["batch_size"], found["largest_batch"]
    if most < 2:
        yield Problem(
            "the memory is too small even for 2 images at a time: use smaller views (--views.large-size) or "
            "a smaller --encoder",
            fatal=True,
        )
    elif batch > most and not (found["micro_batch"] and found["micro_batch"] <= most):
        parts = f"--micro-batch {found['part']}, or " if found["part"] else ""
        yield Problem(
            f"a batch of {batch:,} images does not fit here, {most:,} do: give {parts}--batch-size {most}, "
            f"or share it among {ceil(batch / most)} devices"
        )


def _loader(found: dict[str, Any]) -> Iterator[Problem]:
    probe = found["probe"] or {}
    loader, device = probe.get("loader_images_per_second"), probe.get("device_images_per_second")
    if loader is not None and device is not None and loader < 0.95 * device:
        yield Problem(
            f"reading makes {loader:,.0f} images/s and the device takes {device:,.0f}: more cores or "
            "--workers, a faster disk, or smaller files would help"
        )


def _disk(found: dict[str, Any], disk_free: int) -> Iterator[Problem]:
    need = found["memory"]["checkpoint"] * (found["keep_checkpoints"] + 1)
    if disk_free < need:
        yield Problem(
            f"checkpoints need {size(need)} and {size(disk_free)} are left here: make room, or give pretrain "
            "an --out elsewhere"
        )


def _time(found: dict[str, Any]) -> Iterator[Problem]:
    hours = min((row["hours"][1] for row in found["projection"] if row["here"]), default=0.0)
    if 3600 * hours > YEAR:
        epochs = counted(f"{found['epochs']:g}", "epoch")
        yield Problem(
            f"hopeless on this machine: {duration(3600 * hours)} for {epochs}; use GPUs, fewer --epochs, "
            "smaller --views.large-size or a smaller --encoder"
        )
