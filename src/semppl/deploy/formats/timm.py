"""A folder that `timm.create_model` takes, by `local-dir:` or, once pushed, by `hf-hub:`.

Depths that timm has no name for are another name's with its `layers` changed.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import timm
from safetensors.torch import save
from torch import Tensor, nn

from semppl.core.rundir import write_atomically
from semppl.deploy.formats.format import (
    Answers,
    Format,
    Subject,
    hidden_obstacle,
    resnet_obstacle,
    write_config,
)
from semppl.deploy.model import WEIGHTS
from semppl.deploy.network import Network
from semppl.nets.encoder import ENCODERS
from semppl.nets.pretrained import PREFIX, TimmEncoder
from semppl.views.preprocessing import Preprocessing
from semppl.views.whole import resized_side

_SELECTIVE: Final = "skresnext50_32x4d"
# what timm needs of its own description of an architecture: to change the number of classes or channels later
_KEPT: Final = ("first_conv", "classifier", "pool_size", "min_input_size", "fixed_input_size")


@dataclass(frozen=True)
class Made:
    """A model of timm with random weights, and what it was asked for."""

    architecture: str
    arguments: dict[str, Any]
    model: nn.Module

    @property
    def described(self) -> dict[str, Any]:
        """What timm knows about it."""
        return getattr(self.model, "pretrained_cfg")  # noqa: B009 - of any module, for mypy

    @property
    def classifier(self) -> tuple[str, str] | None:
        """Names of weight and bias of the one layer that gives the classes, if there is one."""
        layer = self.model.get_classifier()  # type: ignore[operator]
        if not isinstance(layer, nn.Linear | nn.Conv2d) or layer.bias is None:
            return None
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return names[id(layer.weight)], names[id(layer.bias)]


def make(network: Network) -> Made:
    """timm's models under their own name, ours under the name that timm gave them."""
    ours, outputs = network.architecture, _outputs(network)
    if isinstance(network.encoder, TimmEncoder):
        return _make_own(ours.encoder.removeprefix(PREFIX).split(".")[0], network.encoder, outputs)
    name = "resnet18" if ours.encoder == "resnet10" else ours.encoder
    name, base = (_SELECTIVE, "resnet50") if ours.sk else (name, name)
    depths = ENCODERS[ours.encoder][1]
    arguments: dict[str, Any] = {} if depths == ENCODERS[base][1] else {"layers": list(depths)}
    return Made(name, arguments, timm.create_model(name, num_classes=outputs, **arguments))


def _make_own(name: str, encoder: TimmEncoder, outputs: int) -> Made:
    """As `create_timm` did: positions belong to the size that the model has by default."""
    described: dict[str, Any] = getattr(encoder.net, "pretrained_cfg")  # noqa: B009 - of any module, for mypy
    size: dict[str, Any] = {}
    if described.get("fixed_input_size"):
        size = {"img_size": list(described["input_size"][-2:])}
    arguments = {"dynamic_img_size": True, **size}
    try:
        return Made(name, arguments, timm.create_model(name, num_classes=outputs, **arguments))
    except TypeError:  # no positions to interpolate
        return Made(name, size, timm.create_model(name, num_classes=outputs, **size))


def obstacle(network: Network) -> str | None:
    """Other widths, stems and paddings; classifiers that are not one linear layer."""
    if not isinstance(network.encoder, TimmEncoder):
        return resnet_obstacle(network, "timm")
    if network.head is None:
        return None
    if hidden := hidden_obstacle(network, "timm"):
        return hidden
    made = make(network)
    kept = set(made.model.state_dict()) - set(made.classifier or ())
    if made.classifier is None or kept != set(network.encoder.net.state_dict()):
        return f"timm's {made.architecture} does not give its classes by one linear layer"
    return None


def write(subject: Subject, folder: Path) -> None:
    """Weights under timm's names, and its kind of config.json."""
    network = subject.network
    made = make(network)
    tensors = _encoder_weights(network)
    if isinstance(network.head, nn.Linear) and made.classifier is not None:
        weight, bias = made.classifier
        shape = made.model.get_parameter(weight).shape  # some classify by a 1×1 convolution
        tensors |= {weight: network.head.weight.reshape(shape), bias: network.head.bias}
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(folder / WEIGHTS, lambda file: file.write(save(tensors, {"format": "pt"})))
    write_config(folder, config(network, made))


def config(network: Network, made: Made) -> dict[str, Any]:
    """What timm reads: how to create the model, and how images are made ready for it."""
    how = network.preprocessing
    content: dict[str, Any] = {
        "architecture": made.architecture,
        "num_classes": _outputs(network),
        "num_features": network.encoder.num_features,
        "pretrained_cfg": {
            **{key: made.described[key] for key in _KEPT if made.described.get(key) is not None},
            "input_size": [3, how.size, how.size],
            "interpolation": "bicubic",
            "crop_pct": crop_share(how),
            "crop_mode": "center",
            "mean": list(how.mean),
            "std": list(how.std),
            "num_classes": _outputs(network),
        },
    }
    if made.arguments:
        content["model_args"] = made.arguments
    if network.head is not None:
        content["label_names"] = list(network.classes)
    return content


def crop_share(how: Preprocessing) -> float:
    """Share of the resized image's side that is seen: the same as by us, though timm rounds down."""
    side = how.size + 32 if how.crop == "deepmind" else resized_side(how.size)
    share = how.size / side
    while math.floor(how.size / share) < side:
        share = math.nextafter(share, 0)
    return share


def answers(_: Subject, folder: Path) -> Answers:
    """By timm alone."""
    return timm.create_model(f"local-dir:{folder}", pretrained=True).eval()


def line(_: Network, folder: Path) -> str:
    """Architecture, classes and weights come from the folder."""
    return f"import timm; model = timm.create_model({f'local-dir:{folder}'!r}, pretrained=True).eval()"


def _outputs(network: Network) -> int:
    return network.head.out_features if isinstance(network.head, nn.Linear) else 0


def _encoder_weights(network: Network) -> dict[str, Tensor]:
    if isinstance(network.encoder, TimmEncoder):
        return dict(network.encoder.net.state_dict())
    tensors = network.encoder.state_dict()
    return {_selective(key): value for key, value in tensors.items()} if network.architecture.sk else tensors


def _selective(key: str) -> str:
    """timm keeps convolution and normalisation of a selective block together."""
    key = re.sub(r"^(layer\d+\.\d+\.conv[13])\.", r"\1.conv.", key)
    return re.sub(r"^(layer\d+\.\d+)\.bn([13])\.", r"\1.conv\2.bn.", key)


TIMM: Final = Format(obstacle=obstacle, write=write, answers=answers, line=line)
