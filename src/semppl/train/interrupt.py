"""Ctrl-C and SIGTERM ask a run to stop after the step in hand."""

import signal
from types import FrameType, TracebackType
from typing import final

from semppl.core.errors import RunError


class Interrupted(RunError):
    """A signal stopped the run; its checkpoint is written."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


@final
class Stopper:
    """`with Stopper() as stop`: `stop.signum` becomes the first signal; a second one stops at once."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Stopper":
        for signum in (signal.SIGINT, signal.SIGTERM):
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
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum
