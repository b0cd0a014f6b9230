"""What the user asks of the data: where it is, which labels count, how it is read. No torch here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from semppl.data.masks import OWN_MASKS

Advance = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""
Feed = Literal["auto", "resident", "streaming"]


def _nobody(_what: str, _done: int, _total: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """See DataConfig for what each value means to the user."""

    source: str
    labels: str | None = None
    labels_per_class: int | None = None
    label_fraction: float | None = None
    validation: float = 0.0
    test: str | None = None
    root: str | None = None
    seed: int = 0
    oracle: bool = False
    require_labels: bool = True
    feed: Feed = "auto"
    memory: int = 2**32
    """Bytes that pixels may take when they are kept in memory."""
    workers: int | None = None
    allow_unreadable: bool = False
    masks: str | None = OWN_MASKS
    """A folder, the words none and own, or None: the file's own ones, or else the default place."""
    damaged: Mapping[str, str] | None = None
    """Names in the data set (so those of training and test are one space) of files that are left out whatever
    looking at them says, and why; None: files are read once, and those that cannot be read are left out."""
    advance: Advance | None = None

    def told(self, what: str) -> Callable[[int, int], None]:
        """Somebody to tell how far it is."""
        return partial(self.advance or _nobody, what)

    @property
    def simulates(self) -> bool:
        """Whether given labels are withheld to see what few of them would give."""
        return self.labels_per_class is not None or self.label_fraction is not None
