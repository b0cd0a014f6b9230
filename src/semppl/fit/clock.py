"""How long a step of some training takes, without what comes before the first one."""

import time
from collections.abc import Callable
from typing import Final, final

import torch

from semppl.train.device import wait_for

_TIMED: Final = 4


@final
class StepClock:
    """`tick` after each step; `seconds` is the mean over all but the first, which warms up."""

    steps: Final = _TIMED

    def __init__(self, device: torch.device, now: Callable[[], float] = time.perf_counter) -> None:
        self._device, self._now, self._times = device, now, list[float]()

    def tick(self, _done: int) -> None:
        """A step is done."""
        wait_for(self._device)
        self._times.append(self._now())

    @property
    def seconds(self) -> float:
        """Of a step; never zero."""
        return max((self._times[-1] - self._times[0]) / max(len(self._times) - 1, 1), 1e-6)
