"""What a page cannot show, and the command that makes it."""

import shlex
from dataclasses import dataclass
from pathlib import Path


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


def fit(run: Path, source: str, *, journey: bool) -> str:
    """The command whose model gives advice on labels: the run itself goes on, or it is another one."""
    if journey:
        return resume(run, journey=True)
    return shlex.join(["semppl", "fit", source or "DATA", "--out", f"{run}-fit"])
