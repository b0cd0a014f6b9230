"""A bookmark on disk: a training that was stopped or killed goes on, if it is the same training."""

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, final

import torch

from semppl.core.errors import UserError
from semppl.core.rundir import write_atomically
from semppl.evaluate.bookmark import Bookmark, Part, Place, State
from semppl.train.checkpoint import FORMAT, load_checkpoint
from semppl.train.interrupt import Interrupted, Stopper
from semppl.train.ranks import ALONE, Ranks


@final
@dataclass(kw_only=True)
class BookmarkFile:
    """`with file.open() as bookmark`: kept every few minutes, when a signal comes, and at the end.

    `facts` say which training it is; one with other facts is not used. Of several ranks, which train alike,
    the main one writes, and all go on from what it reads.
    """

    path: Path
    facts: Mapping[str, Any]
    steps: int
    title: str
    say: Callable[[str], None]
    every: float
    """Seconds between two copies."""
    ranks: Ranks = ALONE
    beside: Mapping[str, Part] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _stop: Stopper = field(default_factory=Stopper, init=False)
    _kept: float = field(default=0.0, init=False)
    """When, by the clock."""

    @contextmanager
    def open(self) -> Iterator[Bookmark]:
        """A signal ends the training at the next step, and a second Ctrl-C ends it at once."""
        with self._stop:
            self._kept = self.clock()
            yield Bookmark(self._find, self._passed, self.beside)
            if self._stop.signum:
                raise Interrupted(f"stopped after {self.title}", self._stop.signum)

    def _find(self) -> Place | None:
        place = self.ranks.from_main(self._read() if self.ranks.main else None)
        if place is not None:
            self.say(f"{self.title}: goes on at step {place.step:,} of {self.steps:,}")
        return place

    def _read(self) -> Place | None:
        if not self.path.exists():
            return None
        try:
            content = load_checkpoint(self.path)
            theirs, place = json.loads(content["facts"]), Place(content["step"], content["state"])
        except (UserError, LookupError, ValueError, TypeError):
            self._refuse("cannot be read")
            return None
        mine = json.loads(_words(self.facts))
        if odd := sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name)):
            self._refuse(f"is of another training (other {', '.join(odd)})")
            return None
        return place

    def _refuse(self, why: str) -> None:
        self.say(f"{self.path} {why}: {self.title} begins anew")

    def _passed(self, step: int, state: Callable[[], State]) -> None:
        """Every step comes here, so nothing is asked of the device but when it is time."""
        due = self.clock() - self._kept >= self.every
        if not (due or step == self.steps or self._stop.signum):
            return
        kept = not self.ranks.main or self._keep(step, state())
        self._kept = self.clock()
        if self._stop.signum:
            which = "which is kept" if kept else "which could not be kept"
            raise Interrupted(
                f"stopped at step {step:,} of {self.steps:,} ({self.title}), {which}", self._stop.signum
            )

    def _keep(self, step: int, state: State) -> bool:
        """A disk that is full stops no training."""
        content, packed = {"step": step, "facts": _words(self.facts), "state": state}, io.BytesIO()
        torch.save({"format": FORMAT, **content}, packed)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, partial(_write, packed))
        except OSError as error:
            self.say(f"{self.path} cannot be written ({error.strerror}): {self.title} goes on without")
            return False
        return True


def _write(packed: io.BytesIO, file: Any) -> None:
    file.write(packed.getbuffer())


def _words(facts: Mapping[str, Any]) -> str:
    """As text, in which a fact is equal to itself read again."""
    return json.dumps(facts, sort_keys=True, default=str)
