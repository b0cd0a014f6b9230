"""What a page cannot show, and the command that makes it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# what a command says of the data beside where it is
_DATA: Final = ("labels", "labels_per_class", "label_fraction", "test", "root")


@dataclass(frozen=True)
class Gap:
    """Something that is missing or damaged."""

    what: str
    command: str = ""
    """That makes it; empty where none does."""
    pictures: bool = False
    """Whether only a page about a single run would show it."""


class Damaged(Exception):
    """A file is there but cannot be used: says which and why."""


def evaluate(run: Path, protocol: str = "", *, again: bool = False) -> str:
    """The command that measures."""
    flags = (["--protocol", protocol] if protocol else []) + (["--overwrite"] if again else [])
    return shlex.join(["semppl", "evaluate", str(run), *flags])


def resume(run: Path, *, journey: bool) -> str:
    """The command that goes on with a run, and that writes its exhibit again where it is finished."""
    return shlex.join(["semppl", "fit" if journey else "pretrain", "--resume", "--out", str(run)])


def fit(run: Path, config: Mapping[str, Any], *, journey: bool) -> str:
    """The command whose model gives advice on labels: the run itself goes on, or it is another one, with the
    same data.
    """
    if journey:
        return resume(run, journey=True)
    data = config.get("data")
    given = {name: data.get(name) for name in _DATA} if isinstance(data, Mapping) else {}
    flags = [
        word
        for name, value in given.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    out = run if run.name not in ("", "..") else run.resolve()
    source = str(config.get("source") or "DATA")
    return shlex.join(["semppl", "fit", source, *flags, "--out", f"{out}-fit"])
