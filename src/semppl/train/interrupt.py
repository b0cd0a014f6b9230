"""Ctrl-C, SIGTERM and what a cluster sends before it takes a machine away: stop after the step in hand."""

import signal
from types import FrameType, TracebackType
from typing import Final, final

from semppl.core.errors import RunError

SIGNALS: Final = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
]


class Interrupted(RunError):
    """A signal stopped the run; its checkpoint is written."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


@final
class Stopper:
    """`with Stopper() as stop`: `stop.signum` becomes the first signal; a second Ctrl-C stops at once.

    Other signals may come twice, from a launcher and from the terminal, and mean the same.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Stopper":
        for signum in SIGNALS:
            try:
                self._before[signum] = signal.signal(signum, self._note)
            except ValueError:  # not the main thread: the caller's own handlers stay
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _note(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's form
        if signum == self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signum = self.signum or signum
