"""`semppl.load`: a network from wherever it lies."""

from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from semppl.config import Config, from_yaml, required
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.deploy.model import below, linear_head, load_network, model_folder
from semppl.deploy.network import Architecture, Network
from semppl.train.build import normalisation
from semppl.train.checkpoint import Say, required_checkpoint
from semppl.train.device import choose_device
from semppl.train.prepare import load_for
from semppl.views.preprocessing import Preprocessing


def _warn(line: str) -> None:
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)


def load(path: str | Path, device: str | torch.device = "cpu", *, say: Say = _warn) -> Network:
    """The network of a run, of an exported folder or of imported weights, in evaluation mode.

    After `semppl fit` it answers with logits of its `classes`, otherwise with features. Images are made ready
    by its `preprocess`:

        network = semppl.load("runs/photos")
        network(network.preprocess("cat.jpg")[None])

    `say` hears of a newest checkpoint that is damaged, in which case the one before it is read.
    """
    path = Path(path)
    folder = model_folder(path)
    network = load_network(folder) if folder is not None else _from_run(path, say)
    return network.to(choose_device(device) if isinstance(device, str) else device)


def _from_run(path: Path, say: Say) -> Network:
    run = RunDirectory(path)
    if not run.exists:
        raise UserError(f"{path}: neither a run nor an exported model")
    file, content = required_checkpoint(run, say)
    config = from_yaml(content["config"])
    architecture = Architecture.of(config.net)
    try:
        encoder = architecture.create(below("encoder.", content["state"]["online"]))
    except RuntimeError as error:
        raise UserError(f"{file}: its weights do not fit the network of {run.config}") from error
    classifier = content.get("classifier")
    return Network(
        architecture,
        encoder,
        _preprocessing(content, config, run),
        head=None if classifier is None else linear_head(classifier["weight"], classifier["bias"]),
        classes=() if classifier is None else tuple(classifier["classes"]),
    ).eval()


def _preprocessing(content: dict[str, Any], config: Config, run: RunDirectory) -> Preprocessing:
    """As stored; the first checkpoints did not, so their statistics are taken from the images once more."""
    if "preprocessing" in content:
        return Preprocessing.from_json(content["preprocessing"])
    dataset = load_for(config, torch.device("cpu"), Console(quiet=True), masks=False, run=run)
    return Preprocessing.of(required(config.views.large_size), *normalisation(config, dataset))
