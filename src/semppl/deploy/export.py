"""The verb `export`: a network in the formats of other libraries, each read again and compared."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from semppl.core.errors import RunError, UserError
from semppl.core.staging import put_, require_free, staged
from semppl.deploy.formats.format import Answers, Format, Subject
from semppl.deploy.formats.onnx import FILE, ONNX, require_onnx
from semppl.deploy.formats.safetensors import SAFETENSORS
from semppl.deploy.formats.timm import TIMM
from semppl.deploy.formats.torchvision import TORCHVISION
from semppl.deploy.hub import CARD, check_push, push, write_card
from semppl.deploy.load import load
from semppl.deploy.model import CONFIG, WEIGHTS, Model, load_model, model_folder
from semppl.deploy.network import Network
from semppl.deploy.settings import ExportFlags, wanted_formats
from semppl.nets.encoder import ENCODERS

TABLE: Final[Mapping[str, Format]] = {
    "safetensors": SAFETENSORS,
    "torchvision": TORCHVISION,
    "timm": TIMM,
    "onnx": ONNX,
}
# files that an export may consist of, so that --overwrite never removes anything else
OURS: Final = {CONFIG, WEIGHTS, FILE, f"{FILE}.data", CARD, *(f"{name}.pth" for name in ENCODERS)}


@dataclass(frozen=True)
class Difference:
    """Between outputs before and after."""

    largest: float
    scale: float
    """Of the largest output."""

    def __str__(self) -> str:
        return f"largest difference {self.largest:.2g} of outputs up to {self.scale:.3g}"


def run_export(path: Path, flags: ExportFlags, console: Console) -> dict[str, float]:
    """Write each format; gives the largest difference of its outputs. All of them appear, or none."""
    formats = wanted_formats(flags)
    if flags.push is not None:
        check_push(flags.push, formats)
    subject = read_subject(path, flags.part)
    for name in formats:
        _require_possible(name, subject.network)
    places = {name: _place(path, flags.out, name, alone=len(formats) == 1) for name in formats}
    for place in places.values():
        _require_elsewhere(place, path)
        # a README alone is somebody else's
        ours = OURS if (place / CONFIG).is_file() else OURS - {CARD}
        require_free(place, ours=ours, overwrite=flags.overwrite)
    differences = _write_all(subject, places, flags.push)
    for name, place in places.items():
        _say(console, f"{name}: {differences[name]}: {place}")
        _say(console, f"    {TABLE[name].line(subject.network, place.absolute())}")
    for remark in _remarks(subject, formats):
        _say(console, remark)
    if flags.push is not None:
        address = push(places[formats[0]], flags.push, private=flags.private)
        _say(console, f"pushed to {address}")
    return {name: difference.largest for name, difference in differences.items()}


def _remarks(subject: Subject, formats: tuple[str, ...]) -> Iterator[str]:
    if subject.model is not None and subject.model.decides == "k-NN" and formats != ("safetensors",):
        yield (
            "in this model the votes of labelled images decide: formats other than safetensors have its "
            "linear classifier alone, which may say something else than `semppl predict`"
        )
    if subject.network.preprocessing.crop == "deepmind" and "timm" in formats:
        yield "timm resizes images with antialiasing, which DeepMind's evaluation did not: its views differ"


def read_subject(path: Path, part: str) -> Subject:
    """What lies at a path, or its encoder alone."""
    network = load(path)
    if part == "classifier" and network.head is None:
        raise UserError(f"{path}: no classifier here: use --part encoder, or get one with `semppl fit`")
    if part == "encoder" or network.head is None:
        return Subject(_encoder_of(network))
    return Subject(network, _votes(path))


def _encoder_of(network: Network) -> Network:
    return Network(network.architecture, network.encoder, network.preprocessing).eval()


def _votes(path: Path) -> Model | None:
    folder = model_folder(path)
    if folder is None or "decides" not in json.loads((folder / CONFIG).read_text()):
        return None
    return load_model(folder)


def _require_possible(name: str, network: Network) -> None:
    if name == "onnx":
        require_onnx()
    obstacle = TABLE[name].obstacle(network)
    if obstacle is None:
        return
    fitting = [each for each, form in TABLE.items() if each != name and form.obstacle(network) is None]
    ways = [f"--format {' or '.join(fitting)}"]
    if network.head is not None and TABLE[name].obstacle(_encoder_of(network)) is None:
        ways.append("--part encoder")
    raise UserError(f"{obstacle}: use {', or '.join(ways)}")


def _place(path: Path, out: Path | None, name: str, *, alone: bool) -> Path:
    if out is None:
        return path / "export" / name
    return out if alone else out / name


def _require_elsewhere(place: Path, path: Path) -> None:
    """An export never replaces what it is made from."""
    for source in (path, model_folder(path)):
        if source is not None and place.resolve() in (source.resolve(), *source.resolve().parents):
            raise UserError(f"{place} is what is exported, or around it: choose another --out")


def _write_all(subject: Subject, places: Mapping[str, Path], pushed: str | None) -> dict[str, Difference]:
    differences = {}
    with ExitStack() as stack:
        try:
            folders = {name: stack.enter_context(staged(place)) for name, place in places.items()}
            for name, folder in folders.items():
                TABLE[name].write(subject, folder)
                if pushed is not None:
                    write_card(folder, subject.network, name, pushed)
                differences[name] = _verified(name, subject, folder)
            for name, folder in folders.items():
                put_(folder, places[name])
        except OSError as error:
            where = ", ".join(map(str, places.values()))
            raise RunError(f"cannot write to {where} ({error.strerror or error})") from error
    return differences


def _verified(name: str, subject: Subject, folder: Path) -> Difference:
    form = TABLE[name]
    difference = compare(subject.network, form.answers(subject, folder), form.batches)
    if not difference.largest <= form.tolerance * difference.scale:  # NaN is no success
        raise RunError(f"{name}: what was written does not answer as the network does ({difference})")
    return difference


@torch.inference_mode()
def compare(network: Network, answers: Answers, batches: tuple[int, ...]) -> Difference:
    """Both on the same random images, of the network's own size."""
    generator = torch.Generator().manual_seed(0)
    size, device = network.preprocessing.size, network.mean_3.device
    largest, scale = [], []
    for count in batches:
        images_B3ss = torch.randn(count, 3, size, size, generator=generator)
        expected, given = network(images_B3ss.to(device)).cpu(), answers(images_B3ss)
        if given.shape != expected.shape:
            raise RunError(f"outputs have the shape {tuple(given.shape)}, not {tuple(expected.shape)}")
        largest.append((given - expected).abs().max())
        scale.append(expected.abs().max())
    return Difference(torch.stack(largest).max().item(), torch.stack(scale).max().item())


def _say(console: Console, words: str) -> None:
    console.print(words, highlight=False, soft_wrap=True, markup=False)
