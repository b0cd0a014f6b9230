"""How long a step of some training takes, without what comes before the first one.

On a GPU the first steps run as they are and another one is recorded (`core/recording.py`): all later ones are
replayed, and only these tell how long many will take.
"""

import time
from collections.abc import Callable
from typing import Final, final

import torch

from semppl.core.recording import WARM_UP
from semppl.train.device import wait_for

_TIMED: Final = 3


@final
class StepClock:
    """`tick` after each of `steps` steps; `seconds` is the mean over all but the first, which warm up."""

    def __init__(self, device: torch.device, now: Callable[[], float] = time.perf_counter) -> None:
        self._device, self._now, self._times = device, now, list[float]()
        self._first = WARM_UP + 1 if device.type == "cuda" else 1
        self.steps = self._first + _TIMED

    def tick(self, _done: int) -> None:
        """A step is done."""
        wait_for(self._device)
        self._times.append(self._now())

    @property
    def seconds(self) -> float:
        """Of a step; never zero."""
        counted = self._times[self._first - 1 :] or self._times
        return max((counted[-1] - counted[0]) / max(len(counted) - 1, 1), 1e-6)
