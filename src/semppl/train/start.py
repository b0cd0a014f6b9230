"""A new run that starts from the weights of another run, of a checkpoint, or of imported weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from semppl.config import Config, from_yaml
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.train.checkpoint import load_checkpoint, sound_checkpoint
from semppl.train.state import TrainState
from semppl.views.preprocessing import Preprocessing

_SHAPES: Final = ("encoder", "width", "stem", "padding")
_HEADS: Final = ("head_hidden", "head_outputs")


@dataclass(frozen=True)
class Start:
    """Where weights lie, and what their checkpoint holds."""

    path: Path
    content: Mapping[str, Any]
    notes: Sequence[str] = ()
    """What is to be said about it."""

    def as_json(self) -> str:
        """For the run directory: what such a run has seen is not in its own configuration alone."""
        origin = {"path": str(self.path), "step": self.content["state"]["step"]}
        return json.dumps(origin, indent=2) + "\n"


def read_start(path: Path | None) -> Start | None:
    """The newest sound checkpoint of a run, or the one given; None where nothing is given."""
    if path is None:
        return None
    if not path.is_dir():
        return Start(path, load_checkpoint(path))
    notes: list[str] = []
    found = sound_checkpoint(RunDirectory(path), notes.append)
    if found is None:
        raise UserError(f"{path}: no checkpoint to start from")
    return Start(path, found.content, notes)


def with_network_of(config: Config, start: Start | None) -> Config:
    """What the user left open is as the weights have it, normalisation included; what the user wrote about
    the encoder must agree with them.

    Padding above all: weights trained with another one would load without a word and see shifted images.
    """
    if start is None:
        return config
    mine, theirs = config.net, from_yaml(start.content["config"]).net
    theirs = replace(theirs, padding=theirs.padding or "symmetric")  # the first runs knew no other
    left_open = [name for name in (*_SHAPES, *_HEADS) if getattr(mine, name) is None]
    net = replace(mine, **{name: getattr(theirs, name) for name in left_open}, sk=mine.sk or theirs.sk)
    if mine.mean is None and "preprocessing" in start.content:
        stored = Preprocessing.from_json(start.content["preprocessing"])
        net = replace(net, mean=stored.mean, std=stored.std)
    for name in (*_SHAPES, "sk", *(_HEADS if _has_heads(start) else ())):
        given, needed = getattr(net, name), getattr(theirs, name)
        if given != needed:
            flag = name.replace("_", "-")
            raise UserError(f"--net.{flag} is {given}, and the weights of {start.path} need {needed}")
    return replace(config, net=net)


def _has_heads(start: Start) -> bool:
    return start.content["state"]["predictor"] is not None


def start_from_(state: TrainState, start: Start | None, console: Console) -> None:
    """Fill in the weights; heads that are not among them stay as they were drawn, which is said."""
    if start is None:
        return
    for note in start.notes:
        console.print(note, highlight=False, soft_wrap=True)
    try:
        fresh = state.load_weights_(start.content["state"])
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:2])
        raise UserError(f"{start.path}: its weights do not fit this network: {reason}") from error
    if fresh:
        lacking = " and no ".join(fresh)
        console.print(f"{start.path} holds no {lacking}: trained anew", highlight=False, soft_wrap=True)
