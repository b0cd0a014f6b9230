"""What to measure: the flags of `semppl bench`, and the same with every choice made."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from semppl.core.cores import usable_cores
from semppl.core.errors import UserError

Part = Literal["step", "scaling", "photometric", "sweep"]


@dataclass(frozen=True, kw_only=True)
class _Common:
    parts: tuple[Part, ...] = ("step",)
    """step: one setting taken apart; scaling: the method's cost against batch, queue, classes and views;
    photometric: that stage on the CPU beside torchvision; sweep: 1,000 linear classifiers of transfer."""
    width: float = 1.0
    """Multiplies the encoder's channels."""
    large: int = 4
    """Large views."""
    small: int = 2
    """Small views."""
    optimiser: Literal["lars", "sgd", "adamw"] = "lars"
    """Optimiser of the step."""
    micro_batch: int | None = None
    """Images encoded at a time; see pretrain."""
    speed: Literal["auto", "eager", "graph", "compile"] = "auto"
    """auto: compile on a GPU (graph with --micro-batch), eager on a CPU."""
    images: Path | None = None
    """A folder of images: the step is also timed with its files decoded and cut as it goes."""
    compare: tuple[Literal["lightly"], ...] = ()
    """lightly: its transforms and its SimCLR and BYOL steps on the same data, where it is installed."""
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
    """Replace what is there."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(frozen=True, kw_only=True)
class BenchFlags(_Common):
    """Time a training step on this machine, part by part, beside its encoders alone.

    Images are random unless --images names a folder. Nothing is trained that anybody keeps. What is not given
    is the paper's step with 256 images on a GPU, and a small one on a CPU.
    """

    encoder: str | None = None
    """resnet10 to resnet200."""
    image_size: int | None = None
    """Side of a large view; up to 64 px the small stem and recipe are taken, as in training."""
    batch_size: int | None = None
    """Images of a step."""
    queue: int | None = None
    """Entries of each queue."""
    classes: int | None = None
    """Classes of the labelled tenth of the images."""
    workers: int | None = None
    """Processes that decode; by default one for each core."""
    steps: int | None = None
    """Steps of a timing."""


@dataclass(frozen=True, kw_only=True)
class BenchSettings(_Common):
    """The same with every choice made."""

    encoder: str
    image_size: int
    batch_size: int
    queue: int
    classes: int
    workers: int
    steps: int


_CHOICES: Final[Mapping[str, Mapping[str, str | int]]] = {
    "cuda": {
        "encoder": "resnet50",
        "image_size": 224,
        "batch_size": 256,
        "queue": 81_920,
        "classes": 1000,
        "steps": 20,
    },
    "cpu": {
        "encoder": "resnet10",
        "image_size": 32,
        "batch_size": 16,
        "queue": 4096,
        "classes": 10,
        "steps": 2,
    },
}
_LEAST: Final = {
    "steps": 1,
    "rounds": 1,
    "batch_size": 2,
    "image_size": 1,
    "queue": 1,
    "classes": 1,
    "large": 1,
    "small": 0,
    "workers": 0,
}


def filled(flags: BenchFlags, device_type: str) -> BenchSettings:
    """What is not given is chosen for the device; what cannot be measured is refused."""
    values: dict[str, Any] = {item.name: getattr(flags, item.name) for item in fields(BenchFlags)}
    for name, choice in {**_CHOICES[device_type], "workers": usable_cores()}.items():
        values[name] = choice if values[name] is None else values[name]
    for name, least in _LEAST.items():
        if values[name] is not None and values[name] < least:
            raise UserError(f"--{name.replace('_', '-')} is {values[name]}: it must be at least {least}")
    if not values["parts"] and not values["compare"]:
        raise UserError("nothing to measure: give --parts or --compare")
    return BenchSettings(**values)
