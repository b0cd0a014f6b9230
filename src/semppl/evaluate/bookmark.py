"""Where a training was left, so that it goes on from there and not from its beginning.

Batches, views and rates of a step are functions of its number. All else that a training has is in tensors, so
with copies of these it goes on as if nothing had happened, to the bit where the device computes to the bit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Part: TypeAlias = nn.Module | Optimizer | Tensor
"""Something that a training changes."""

State: TypeAlias = dict[str, Any]
"""Copies of parts by their names, on the CPU: tensors and plain values alone."""


class Place(NamedTuple):
    """How far a training is."""

    step: int
    """So many are done."""
    state: State


@dataclass(frozen=True)
class Bookmark:
    """What a loop asks and tells."""

    find: Callable[[], Place | None]
    """Asked once, before the first step; None: from the beginning."""
    passed: Callable[[int, Callable[[], State]], None]
    """Hears after each step how many are done, and where the state is to be had; what it raises ends the
    training."""
    beside: Mapping[str, Part] = field(default_factory=dict)
    """Kept, too: what those who watch have counted."""


def steps_left(steps: int, parts: Mapping[str, Part], bookmark: Bookmark | None) -> Iterator[int]:
    """The steps that are not done, after the parts were put back to where these begin.

    Parts stay in the memory that they have: a recording of the step reads it.
    """
    if bookmark is None:
        yield from range(steps)
        return
    parts, first = {**parts, **bookmark.beside}, 0
    if (place := bookmark.find()) is not None:
        first = place.step
        put_back_(parts, place.state)
    for step in range(first, steps):
        yield step
        bookmark.passed(step + 1, lambda: state_of(parts))


def state_of(parts: Mapping[str, Part]) -> State:
    """Copies on the CPU. Of an optimiser what it remembers, not its rates, which each step is told."""
    return {name: _copied(_content(part)) for name, part in parts.items()}


@torch.no_grad()
def put_back_(parts: Mapping[str, Part], state: State) -> None:
    """Make them what they were; the state stays nobody's memory."""
    for name, part in parts.items():
        if isinstance(part, Tensor):
            part.copy_(state[name])
        elif isinstance(part, Optimizer):
            part.load_state_dict({**part.state_dict(), "state": _copied(state[name])})
        else:
            part.load_state_dict(state[name])


def _content(part: Part) -> Any:
    if isinstance(part, Tensor):
        return part
    return part.state_dict()["state"] if isinstance(part, Optimizer) else part.state_dict()


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    return {key: _copied(each) for key, each in value.items()} if isinstance(value, Mapping) else value
