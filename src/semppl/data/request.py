"""What the user asks of the data: where it is, which labels count, how it is read. No torch here."""

from dataclasses import dataclass
from typing import Literal

Feed = Literal["auto", "resident", "streaming"]


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

    @property
    def simulates(self) -> bool:
        """Whether given labels are withheld to see what few of them would give."""
        return self.labels_per_class is not None or self.label_fraction is not None
