"""What can go wrong, in words for the person at the keyboard."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class UserError(ValueError):
    """Something the user gave cannot be used: one line, exit status 2, nothing written."""


class RunError(Exception):
    """The run failed while it was going: one line, exit status 1."""


class Elsewhere(RunError):
    """Another process of the same job failed and says why; this one only leaves."""


def choose(table: Mapping[str, T], name: str, kind: str) -> T:
    """The entry of a table by name; an unknown name is answered with those that exist."""
    if name not in table:
        raise UserError(f"unknown {kind} {name!r}: choose from {', '.join(sorted(table))}")
    return table[name]
