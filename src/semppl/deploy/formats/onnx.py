"""ONNX, for onnxruntime and many others: any network, batches of any size."""

import importlib
import json
import logging
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from semppl.core.errors import RunError, UserError
from semppl.deploy.formats.format import Answers, Format, Subject, facts, write_config
from semppl.deploy.network import Network

FILE: Final = "model.onnx"
INPUT: Final = "images"
# the format of a single file ends at 2 GiB; larger weights lie beside it, in model.onnx.data
_SINGLE: Final = 1.9e9
_SEVERE: Final = 3


def require_onnx() -> None:
    """The libraries are an extra of ours."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(f'the format onnx needs {name}: pip install "semppl[onnx]"') from error


def write(subject: Subject, folder: Path) -> None:
    """The graph, with what is needed to use it in its metadata and in config.json."""
    network = subject.network
    program = _exported(network)
    _forget_sources_(program.model)
    for key, value in facts(network).items():
        program.model.metadata_props[key] = json.dumps(value)
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    program.save(folder / FILE, external_data=weights > _SINGLE)
    write_config(folder, facts(network))


def _exported(network: Network) -> Any:
    size, device = network.preprocessing.size, network.mean_3.device
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells what it leaves as it is
    try:
        return torch.onnx.export(
            network,
            (torch.zeros(2, 3, size, size, device=device),),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=[INPUT],
            output_names=["features" if network.head is None else "logits"],
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        name = network.architecture.encoder
        raise RunError(f"onnx: torch cannot export {name} ({_first_line(error)})") from error
    finally:
        logger.setLevel(level)


def _forget_sources_(model: Any) -> None:
    """Each node would carry the lines of code that made it, with paths of this machine."""
    for graph in (model.graph, *model.functions.values()):
        for node in graph:
            node.metadata_props.clear()


def _first_line(error: Exception) -> str:
    return next((line for line in str(error.__cause__ or error).splitlines() if line.strip()), "")


def answers(_: Subject, folder: Path) -> Answers:
    """By onnxruntime, on the CPU."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _SEVERE
    session = runtime.InferenceSession(folder / FILE, options, providers=["CPUExecutionProvider"])

    def answer(images_B3ss: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {INPUT: images_B3ss.numpy()})[0])

    return answer


def line(_: Network, folder: Path) -> str:
    """Its answers are those of `model.run(None, {"images": images})[0]`."""
    return f"import onnxruntime; model = onnxruntime.InferenceSession({str(folder / FILE)!r})"


ONNX: Final = Format(
    obstacle=lambda _: None, write=write, answers=answers, line=line, tolerance=1e-3, batches=(1, 5)
)
