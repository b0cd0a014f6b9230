"""How far the host may run ahead of a GPU."""

from collections import deque
from typing import Final, final

import torch

AHEAD: Final = 2


@final
class Pace:
    """`keep()` once for each batch: waits until the device is at most two batches behind.

    Without it a host that only sends commands fills the device's memory with batches that wait their turn.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._reached: deque[torch.cuda.Event] = deque()

    def keep(self) -> None:
        """On a CPU nothing runs ahead."""
        if self._device.type != "cuda":
            return
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        self._reached.append(event)
        if len(self._reached) > AHEAD:
            self._reached.popleft().synchronize()
