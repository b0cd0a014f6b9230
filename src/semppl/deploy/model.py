"""A model that answers by itself: weights as safetensors and a config.json that says how to use them.

Shapes: L labelled images, F features, Y classes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from semppl.core.errors import UserError
from semppl.core.rundir import write_atomically, write_text
from semppl.evaluate.bank import LabelledBank
from semppl.nets.encoder import create_encoder

Decides = Literal["k-NN", "linear", "fine-tuned"]
FORMAT: Final = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"


@dataclass(frozen=True)
class Architecture:
    """What `create_encoder` is asked for."""

    encoder: str
    width: float
    stem: str


@dataclass(frozen=True)
class Model:
    """Images → label, probability, votes of the nearest labelled images."""

    architecture: Architecture
    encoder: nn.Module
    head: nn.Module
    """Features → logits."""
    decides: Decides
    bank: LabelledBank
    bank_names: Sequence[str]
    """Files of the labelled images."""
    classes: tuple[str, ...]
    size: int
    mean_3: Tensor
    std_3: Tensor

    def to(self, device: torch.device) -> "Model":
        """Move its networks and statistics; the bank stays where it is."""
        self.encoder.to(device)
        self.head.to(device)
        return Model(**{**vars(self), "mean_3": self.mean_3.to(device), "std_3": self.std_3.to(device)})


def linear_head(weight_YF: Tensor, bias_Y: Tensor) -> nn.Linear:
    """A fitted linear classifier as a module."""
    head = nn.utils.skip_init(nn.Linear, weight_YF.shape[1], len(weight_YF))
    with torch.no_grad():
        head.weight.copy_(weight_YF)
        head.bias.copy_(bias_Y)
    return head


def save_model(model: Model, folder: Path) -> None:
    """model.safetensors and config.json, each written as a whole or not at all."""
    tensors = {f"encoder.{name}": value for name, value in model.encoder.state_dict().items()}
    tensors |= {f"head.{name}": value for name, value in model.head.state_dict().items()}
    tensors |= {"bank.features": model.bank.features_LF, "bank.labels": model.bank.labels_L}
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    config: dict[str, Any] = {
        "format": FORMAT,
        "architecture": vars(model.architecture),
        "classes": list(model.classes),
        "input_size": model.size,
        "normalisation": {"mean": model.mean_3.tolist(), "std": model.std_3.tolist()},
        "decides": model.decides,
        "neighbours": model.bank.k,
        "labelled_images": list(model.bank_names),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, lambda file: file.write(save(tensors)))
    write_text(folder / CONFIG, json.dumps(config, indent=1, ensure_ascii=True) + "\n")


def load_model(path: Path) -> Model:
    """From the folder that was written, or from the run directory around it."""
    folder = path / "model" if (path / "model" / CONFIG).is_file() else path
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise UserError(f"{path}: no exported model here ({CONFIG} and {WEIGHTS}): run `semppl fit` first")
    try:
        config = json.loads((folder / CONFIG).read_text())
        tensors = load_file(folder / WEIGHTS)
        if config["format"] != FORMAT:
            raise UserError(f"{folder}: written by another version (format {config['format']})")
        return _assembled(config, tensors)
    except (json.JSONDecodeError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(f"{folder}: not a readable model ({type(error).__name__}: {reason})") from error


def _assembled(config: dict[str, Any], tensors: dict[str, Tensor]) -> Model:
    architecture = Architecture(**config["architecture"])
    encoder = create_encoder(
        architecture.encoder,
        width=architecture.width,
        stem=architecture.stem,  # type: ignore[arg-type]  # checked there
    )
    encoder.load_state_dict(_below("encoder.", tensors))
    head = _head(_below("head.", tensors))
    classes = tuple(config["classes"])
    return Model(
        architecture=architecture,
        encoder=encoder.eval(),
        head=head.eval(),
        decides=config["decides"],
        bank=LabelledBank(
            tensors["bank.features"], tensors["bank.labels"], len(classes), config["neighbours"]
        ),
        bank_names=tuple(config["labelled_images"]),
        classes=classes,
        size=config["input_size"],
        mean_3=torch.tensor(config["normalisation"]["mean"]),
        std_3=torch.tensor(config["normalisation"]["std"]),
    )


def _head(weights: dict[str, Tensor]) -> nn.Module:
    """A linear layer, or the projector's first layer and a linear one: told apart by their names."""
    if "weight" in weights:
        return linear_head(weights["weight"], weights["bias"])
    hidden, features = weights["0.0.weight"].shape
    classes = len(weights["1.weight"])
    layers = nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True))
    head = nn.Sequential(layers, nn.Linear(hidden, classes))
    head.load_state_dict(weights)
    return head


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
