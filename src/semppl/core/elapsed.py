"""How long a training took, from its lines of metrics: so that one which was interrupted knows it, too."""

from collections.abc import Iterable, Mapping
from typing import Any


def training_seconds(rows: Iterable[Mapping[str, Any]], images_per_step: float) -> float:
    """Each line has its own speed, that of the steps since the line before: a slow half counts in full, and
    so does what is compiled in the first steps. A line without speed belongs to the next one.
    """
    seconds, before = 0.0, 0
    for row in rows:
        step, speed = row["step"], row.get("images_per_second")
        if speed and step > before:
            seconds += (step - before) * images_per_step / speed
            before = step
    return seconds
