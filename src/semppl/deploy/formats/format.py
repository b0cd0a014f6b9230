"""What a format has to say, and what several of them say alike."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from semppl.core.rundir import write_text
from semppl.deploy.model import CONFIG, Model
from semppl.deploy.network import Network
from semppl.nets.encoder import ENCODERS

Answers = Callable[[Tensor], Tensor]
"""Preprocessed images → features or logits."""


@dataclass(frozen=True)
class Subject:
    """What is exported."""

    network: Network
    model: Model | None = None
    """The same with its votes, where the format can take them."""


@dataclass(frozen=True)
class Format:
    """One way of writing a network."""

    obstacle: Callable[[Network], str | None]
    """Why this network cannot be written so; None where it can."""
    write: Callable[[Subject, Path], None]
    """Into an empty folder."""
    answers: Callable[[Subject, Path], Answers]
    """Read again by the library that it is for."""
    line: Callable[[Network, Path], str]
    """One line of Python that reads it, in evaluation mode, as `model`."""
    tolerance: float = 1e-4
    """Difference of outputs that is rounding, relative to the largest of them."""
    batches: tuple[int, ...] = (4,)
    """Numbers of images that it is verified with."""


def facts(network: Network) -> dict[str, Any]:
    """What is needed to use a file that holds weights alone."""
    how = network.preprocessing
    return {
        "architecture": vars(network.architecture),
        "classes": list(network.classes),
        "input_size": how.size,
        "mean": list(how.mean),
        "std": list(how.std),
        "crop": how.crop,
    }


def write_config(folder: Path, content: Mapping[str, Any]) -> None:
    """config.json, in ASCII: names of classes need not be valid text."""
    write_text(folder / CONFIG, json.dumps(content, indent=1) + "\n")


def resnet_obstacle(network: Network, library: str) -> str | None:
    """What a library that has ResNets of width 1 alone does not have of one of ours."""
    ours = network.architecture
    if ours.encoder not in ENCODERS:
        return f"{library} does not have {ours.encoder}"
    if ours.width != 1:
        return f"{library} has no ResNet of width {ours.width:g}"
    if ours.stem != "imagenet":
        return f"{library} has no ResNet with a stem for small images"
    if ours.padding != "symmetric":
        return f"{library} has no ResNet that pads as TensorFlow does"
    return hidden_obstacle(network, library)


def hidden_obstacle(network: Network, library: str) -> str | None:
    """A fine-tuned classifier may have a hidden layer, which nobody else's has."""
    if network.head is None or isinstance(network.head, nn.Linear):
        return None
    return f"{library} has no hidden layer before its classes, as this classifier does"
