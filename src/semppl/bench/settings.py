"""What to measure; these are the flags of `semppl bench`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Part = Literal["step", "scaling", "photometric"]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Time a training step on this machine, part by part, beside its encoders alone.

    Images are random unless --images names a folder. Nothing is trained that anybody keeps.
    """

    parts: tuple[Part, ...] = ("step",)
    """step: one setting taken apart; scaling: the method's cost against batch, queue, classes and views;
    photometric: that stage on the CPU beside torchvision."""
    encoder: str = "resnet50"
    """resnet10 to resnet200."""
    width: float = 1.0
    """Multiplies its channels."""
    image_size: int = 224
    """Side of a large view; up to 64 px the small stem and recipe are taken, as in training."""
    batch_size: int = 256
    """Images of a step."""
    large: int = 4
    """Large views."""
    small: int = 2
    """Small views."""
    queue: int = 81_920
    """Entries of each queue."""
    classes: int = 1000
    """Classes of the labelled tenth of the images."""
    optimiser: Literal["lars", "sgd", "adamw"] = "lars"
    """Optimiser of the step."""
    micro_batch: int | None = None
    """Images encoded at a time; see pretrain."""
    speed: Literal["auto", "eager", "graph", "compile"] = "auto"
    """auto: compile on a GPU, eager on a CPU."""
    images: Path | None = None
    """A folder of images: the step is also timed with its files decoded and cut as it goes."""
    workers: int | None = None
    """Threads that decode; by default one for each core."""
    compare: tuple[Literal["lightly"], ...] = ()
    """lightly: its transforms and its SimCLR and BYOL steps on the same data, where it is installed."""
    steps: int = 20
    """Steps of a timing."""
    rounds: int = 3
    """Timings of which the median is taken."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU."""
    seed: int = 0
    """Of weights, images and draws."""
    out: Path | None = None
    """Folder for bench.json and, with scaling, scaling.png."""
    overwrite: bool = False
    """Replace a bench.json that is there."""
    debug: bool = False
    """Show the traceback of an error."""
