"""Lines of metrics, and pictures, as TensorBoard shows them."""

from collections.abc import Callable
from contextlib import suppress
from math import isnan
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from PIL import Image
from torch.utils.tensorboard import SummaryWriter

from semppl.core.trust import shown_thresholds, trust_by_votes
from semppl.train.checkpoint import Say


@final
class Curves:
    """Beside the metrics of a run. They are a copy of them: where they cannot be written, the run goes on."""

    def __init__(self, folder: Path, start: int, say: Say) -> None:
        self._say = say
        self._writer: SummaryWriter | None = None
        try:
            self._writer = SummaryWriter(str(folder), purge_step=start + 1 if start else None)
        except OSError as error:
            self._end(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def write(self, row: dict[str, Any]) -> None:
        """One line."""
        self._try(lambda writer: write_curves(writer, row))

    def show(self, name: str, picture: Image.Image, step: int) -> None:
        """One picture."""
        self._try(lambda writer: writer.add_image(name, np.asarray(picture), step, dataformats="HWC"))

    def _try(self, write: Callable[[SummaryWriter], object]) -> None:
        if self._writer is None:
            return
        try:
            write(self._writer)
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        self._writer = None
        self._say(f"the curves for TensorBoard end here ({error.strerror}); metrics.jsonl goes on")


def write_curves(writer: SummaryWriter, row: dict[str, Any]) -> None:
    """Numbers become curves; the counts of images by votes become a histogram, and where truth is known the
    precision and recall of pseudo-labels by threshold.
    """
    _write_trust(writer, row)
    for key, value in row.items():
        if key == "pseudo/votes":
            _write_histogram(writer, key, value, row["step"])
        elif key not in ("step", "epoch") and not isinstance(value, list):
            writer.add_scalar(key, value, row["step"])


def _write_trust(writer: SummaryWriter, row: dict[str, Any]) -> None:
    if "pseudo/right_by_votes" not in row:
        return
    lines = trust_by_votes(row["pseudo/right_by_votes"], row["pseudo/known_by_votes"])
    for votes in shown_thresholds(len(lines)):
        line, what = lines[votes - 1], f"{votes} of {len(lines)} ballots or more"
        if not isnan(line.precision):
            writer.add_scalar(f"precision/{what}", line.precision, row["step"])
        writer.add_scalar(f"recall/{what}", line.recall, row["step"])


def _write_histogram(writer: SummaryWriter, key: str, counts: list[int], step: int) -> None:
    writer.add_histogram_raw(
        key,
        min=0,
        max=len(counts) - 1,
        num=sum(counts),
        sum=sum(votes * count for votes, count in enumerate(counts)),
        sum_squares=sum(votes**2 * count for votes, count in enumerate(counts)),
        bucket_limits=[votes + 0.5 for votes in range(len(counts))],
        bucket_counts=counts,
        global_step=step,
    )
