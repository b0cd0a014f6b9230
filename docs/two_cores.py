"""What each measure for a CPU is worth in a step, for docs/performance.md.

    OMP_NUM_THREADS=2 .venv/bin/python docs/two_cores.py

A process for each step, in which one measure is undone; memory that was kept cannot be given up again.
"""

import subprocess
import sys
from typing import Any

import torch
from torch.optim import AdamW

from semppl.bench.settings import BenchFlags, filled
from semppl.bench.stopwatch import milliseconds
from semppl.bench.workload import build_workload
from semppl.core.allocator import keep_freed_memory_
from semppl.method import losses
from semppl.train import build
from semppl.views import photometric

STEPS = {
    "ResNet-10 × 0.25, 128 images, 28 px": ("resnet10", 0.25, 28, 128, 10),
    "the same with 127 negatives": ("resnet10", 0.25, 28, 128, 127),
    "ResNet-18 × 0.5, 64 images, 96 px": ("resnet18", 0.5, 96, 64, 10),
}
WAYS = ("nothing", "layout", "memory", "colours", "optimiser", "pairs", "all")


def by_rows(*_: object) -> torch.memory_format:
    """The layout that torch has by default."""
    return torch.contiguous_format


def plain(*groups: Any, **settings: Any) -> AdamW:
    """Not fused."""
    return AdamW(*groups, **{**settings, "fused": None})


def undo_(way: str) -> None:
    """As it was before, in this process."""
    if way in ("layout", "all"):
        build.memory_layout = by_rows
    if way in ("colours", "all"):
        photometric.augment_on_cpu = photometric.augment_by_order
    if way in ("optimiser", "all"):
        build.AdamW = plain
    if way in ("pairs", "all"):
        losses.all_pairs_pay = lambda *_: False
    if way not in ("memory", "all"):
        keep_freed_memory_()


def measured(way: str, step: str) -> float:
    """Milliseconds of a step."""
    undo_(way)
    encoder, width, size, batch, negatives = STEPS[step]
    flags = BenchFlags(
        encoder=encoder,
        width=width,
        image_size=size,
        batch_size=batch,
        queue=2560,
        large=2,
        small=0,
        optimiser="adamw",
        device="cpu",
    )
    training = build_workload(filled(flags, "cpu"), negatives=negatives).training
    number = iter(range(10_000))
    return milliseconds(
        lambda: training.step(training.feed(next(number))), training.device, steps=5, rounds=5
    )


def main() -> None:
    """A row for each way, a column for each step."""
    if len(sys.argv) > 1:
        print(measured(*sys.argv[1:]))
        return
    print("| undone |", " | ".join(STEPS), "|")
    for way in WAYS:
        runs = [
            subprocess.run([sys.executable, __file__, way, step], check=True, capture_output=True, text=True)
            for step in STEPS
        ]
        print(f"| {way} |", " | ".join(f"{float(run.stdout):.0f}" for run in runs), "|", flush=True)


if __name__ == "__main__":
    main()
