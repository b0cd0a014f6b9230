"""Our own format: model.safetensors and config.json, for `semppl.load`, and `semppl predict` with votes."""

from pathlib import Path
from typing import Final

from semppl.deploy.formats.format import Answers, Format, Subject
from semppl.deploy.model import load_model, load_network, save_model, save_network
from semppl.deploy.network import Network


def write(subject: Subject, folder: Path) -> None:
    """With the votes where there are some."""
    if subject.model is None:
        save_network(subject.network, folder)
    else:
        save_model(subject.model, folder)


def answers(subject: Subject, folder: Path) -> Answers:
    """The votes, too, must be readable."""
    return load_network(folder) if subject.model is None else load_model(folder).network


def line(_: Network, folder: Path) -> str:
    """With our own library."""
    return f"import semppl; model = semppl.load({str(folder)!r})"


SAFETENSORS: Final = Format(obstacle=lambda _: None, write=write, answers=answers, line=line)
