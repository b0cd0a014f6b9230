"""A state dict for the ResNets of torchvision, whose parameter names are ours."""

from pathlib import Path
from typing import Any, Final

import torch
import torchvision
from torch import Tensor, nn

from semppl.deploy.formats.format import Answers, Format, Subject, facts, resnet_obstacle, write_config
from semppl.deploy.network import Network
from semppl.nets.encoder import ENCODERS

_FUNCTIONS: Final = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def obstacle(network: Network) -> str | None:
    """Only ResNets as they were first published are there."""
    ours = network.architecture
    if ours.sk:
        return "torchvision has no ResNet with selective kernels"
    return resnet_obstacle(network, "torchvision")


def weights_file(network: Network) -> str:
    """Named by the architecture."""
    return f"{network.architecture.encoder}.pth"


def write(subject: Subject, folder: Path) -> None:
    """Weights, and beside them what they do not say."""
    network = subject.network
    tensors = dict(network.encoder.state_dict())
    if network.head is not None:
        tensors |= {f"fc.{name}": value for name, value in network.head.state_dict().items()}
    torch.save(
        {name: value.detach().cpu().clone() for name, value in tensors.items()},
        folder / weights_file(network),
    )
    write_config(folder, facts(network))


def answers(subject: Subject, folder: Path) -> Answers:
    """By a ResNet of torchvision."""
    network = subject.network
    name, outputs = network.architecture.encoder, _outputs(network)
    block, depths = ENCODERS[name]
    plain = torchvision.models.resnet
    model = (
        getattr(torchvision.models, name)(**outputs)
        if name in _FUNCTIONS
        else plain.ResNet(getattr(plain, block.__name__), list(depths), **outputs)  # type: ignore[attr-defined]
    )
    if network.head is None:
        model.fc = nn.Identity()
    weights: dict[str, Tensor] = torch.load(folder / weights_file(network), weights_only=True)
    model.load_state_dict(weights)
    return model.eval()


def line(network: Network, folder: Path) -> str:
    """Depths that have no function there have a class."""
    name = network.architecture.encoder
    arguments = [f"{key}={value}" for key, value in _outputs(network).items()]
    call = f"torchvision.models.{name}"
    if name not in _FUNCTIONS:
        block, depths = ENCODERS[name]
        call = "torchvision.models.resnet.ResNet"
        kind = f"torchvision.models.resnet.{block.__name__}"  # type: ignore[attr-defined]
        arguments = [kind, str(list(depths)), *arguments]
    identity = "model.fc = torch.nn.Identity(); " if network.head is None else ""
    file = str(folder / weights_file(network))
    return (
        f"import torch, torchvision; model = {call}({', '.join(arguments)}); {identity}"
        f"model.load_state_dict(torch.load({file!r}, weights_only=True)); model = model.eval()"
    )


def _outputs(network: Network) -> dict[str, Any]:
    return {"num_classes": network.head.out_features} if isinstance(network.head, nn.Linear) else {}


TORCHVISION: Final = Format(obstacle=obstacle, write=write, answers=answers, line=line)
