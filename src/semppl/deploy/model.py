"""A model that answers by itself: weights as safetensors and a config.json that says how to use them.

Shapes: L labelled images, F features, Y classes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from semppl.core.errors import UserError
from semppl.core.rundir import write_atomically, write_text
from semppl.deploy.network import Architecture, Network
from semppl.evaluate.bank import LabelledBank
from semppl.train.device import memory_layout
from semppl.views.preprocessing import CROPS, Preprocessing

R = TypeVar("R")
Decides = Literal["k-NN", "linear", "fine-tuned", "fine-tuned on all images"]
FORMAT: Final = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
# what a file that is damaged, or was edited, has been seen to raise
_DAMAGE: Final = (AttributeError, KeyError, OSError, RuntimeError, SafetensorError, TypeError, ValueError)


@dataclass(frozen=True)
class Model:
    """Images → label, probability, votes of the nearest labelled images."""

    network: Network
    """With a classifier."""
    decides: Decides
    bank: LabelledBank
    bank_names: Sequence[str]
    """Files of the labelled images."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names."""
        return self.network.classes

    def to(self, device: torch.device) -> "Model":
        """Move its network, laid out as is fast there; the bank stays where it is."""
        self.network.to(device).to(memory_format=memory_layout(device))
        return self


def linear_head(weight_YF: Tensor, bias_Y: Tensor) -> nn.Linear:
    """A fitted linear classifier as a module."""
    head = nn.utils.skip_init(nn.Linear, weight_YF.shape[1], len(weight_YF))
    with torch.no_grad():
        head.weight.copy_(weight_YF)
        head.bias.copy_(bias_Y)
    return head


def scale_logits_(head: nn.Module, scale: float) -> None:
    """Multiply them by a number: no answer changes, and how sure it is does."""
    *_, last = head.modules()
    if not isinstance(last, nn.Linear):
        raise TypeError(f"the last layer of a classifier is linear, and not {type(last).__name__}")
    with torch.no_grad():
        last.weight.mul_(scale)
        last.bias.mul_(scale)


def save_model(model: Model, folder: Path) -> None:
    """model.safetensors and config.json, each written as a whole or not at all."""
    bank = {"bank.features": model.bank.features_LF, "bank.labels": model.bank.labels_L}
    _save(
        model.network,
        folder,
        bank,
        {
            "decides": model.decides,
            "neighbours": model.bank.k,
            "labelled_images": list(model.bank_names),
        },
    )


def save_network(network: Network, folder: Path) -> None:
    """The same without anything that votes: an encoder alone, or with a classifier."""
    _save(network, folder, {}, {})


def _save(
    network: Network, folder: Path, more_tensors: Mapping[str, Tensor], more: Mapping[str, object]
) -> None:
    tensors = {**network.state_dict(), **more_tensors}
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    how = network.preprocessing
    config: dict[str, Any] = {
        "format": FORMAT,
        "architecture": vars(network.architecture),
        "classes": list(network.classes),
        "input_size": how.size,
        "crop": how.crop,
        "normalisation": {"mean": list(how.mean), "std": list(how.std)},
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, lambda file: file.write(save(tensors)))
    write_text(folder / CONFIG, json.dumps(config, indent=1, ensure_ascii=True) + "\n")


def model_folder(path: Path) -> Path | None:
    """The folder that was written, be it given or the run directory around it."""
    places = (path / "model", path)
    return next((each for each in places if (each / CONFIG).is_file() and (each / WEIGHTS).is_file()), None)


def load_model(path: Path) -> Model:
    """From the folder that was written, or from the run directory around it."""
    folder = model_folder(path)
    if folder is None:
        raise UserError(
            f"{path}: no model that knows labels here ({CONFIG} and {WEIGHTS}): run `semppl fit` first, or "
            "give labelled images with --labels"
        )
    return _read(folder, _model)


def load_network(folder: Path) -> Network:
    """From the folder alone, whatever else it holds."""
    return _read(folder, _network)


def _read(folder: Path, assembled: Callable[[dict[str, Any], dict[str, Tensor]], R]) -> R:
    try:
        config = json.loads((folder / CONFIG).read_text())
        _require_ours(config, folder, votes=assembled is _model)
        return assembled(config, load_file(folder / WEIGHTS))
    except UserError:
        raise
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(f"{folder}: not a readable model ({type(error).__name__}: {reason})") from error


def _require_ours(config: dict[str, Any], folder: Path, *, votes: bool) -> None:
    if config.get("format") != FORMAT:
        found = f"version (format {config['format']})" if "format" in config else "library"
        raise UserError(f"{folder}: written by another {found}: give a model of semppl")
    if votes and "decides" not in config:
        raise UserError(f"{folder}: no labelled images are in this model: give some, with --labels")


def _network(config: dict[str, Any], tensors: dict[str, Tensor]) -> Network:
    architecture = Architecture(**config["architecture"])
    head, classes = below("head.", tensors), tuple(config["classes"])
    network = Network(
        architecture,
        architecture.create(below("encoder.", tensors)),
        _preprocessing(config),
        head=_head(head) if head else None,
        classes=classes,
    ).eval()
    outputs = network.head.weight if isinstance(network.head, nn.Linear) else head.get("1.weight", ())
    if len(outputs) != len(classes):
        raise ValueError(f"{len(classes)} classes for {len(outputs)} outputs")
    return network


def _preprocessing(config: dict[str, Any]) -> Preprocessing:
    size, crop = config["input_size"], config.get("crop", "middle")  # the first version had no other crop
    mean, std = (tuple(map(float, config["normalisation"][key])) for key in ("mean", "std"))
    if type(size) is not int or size < 1 or crop not in CROPS or len(mean) != 3 or len(std) != 3:
        raise ValueError(f"size {size}, crop {crop}, {len(mean)} means and {len(std)} deviations")
    return Preprocessing(size, mean, std, crop)


def _model(config: dict[str, Any], tensors: dict[str, Tensor]) -> Model:
    if type(config["neighbours"]) is not int or config["neighbours"] < 1:
        raise ValueError(f"{config['neighbours']} neighbours")
    return Model(
        network=_network(config, tensors),
        decides=config["decides"],
        bank=LabelledBank(
            tensors["bank.features"], tensors["bank.labels"], len(config["classes"]), config["neighbours"]
        ),
        bank_names=tuple(config["labelled_images"]),
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


def below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
