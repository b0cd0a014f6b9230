"""Work recorded once as a CUDA graph and replayed: the host sends one command instead of thousands.

Work can be recorded because its shapes are fixed, nothing in it asks the device for a number, and all that
changes from one time to the next is written into memory that the recording reads.
"""

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar, final

import torch
from torch import Tensor

T = TypeVar("T")
WARM_UP: Final = 3
"""Calls before one is recorded."""
Work = Callable[[], T]


class Recorder(Protocol):
    """Runs work, or records it."""

    def run(self, work: Work[T]) -> T:
        """Do it now, where it would be recorded."""

    def record(self, work: Work[T], generators: Iterable[torch.Generator]) -> Work[T]:
        """What does it again with the memory that it used; recording itself does nothing."""


@contextmanager
def searched_kernels() -> Iterator[None]:
    """Meanwhile cuDNN times the kernels of each convolution that it has not met and keeps the fastest one
    instead of guessing it; one that it has met without this stays a guess. That takes too long for work done
    once; what is recorded is done thousands of times (docs/performance.md has what it gives).
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@final
class CudaRecorder:
    """Records as a CUDA graph."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)

    def run(self, work: Work[T]) -> T:
        """On the stream that will record: libraries keep workspaces for each stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream), searched_kernels():
            outcome = work()
        current.wait_stream(self._stream)
        return outcome

    def record(self, work: Work[T], generators: Iterable[torch.Generator] = ()) -> Work[T]:
        """The recording has memory of its own, so what was used before is given back first; so is that of
        recordings which nobody but themselves still holds.
        """
        gc.collect()
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        # other threads, such as those that pin memory for the feed, go on meanwhile
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            outcome = work()

        def replay() -> T:
            graph.replay()
            return outcome

        return replay


@final
class Recorded(Generic[T]):
    """Tensors of fixed shapes → what `work` makes of them. What it returns is the recording's own: the next
    call writes over it.

    The first `warm_up` calls run as they are: they make the buffers of optimisers and let libraries choose
    their kernels, which cannot be recorded. `ready` is called before recording; `refused` where the device
    refuses, after which every call runs as it is.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Tensor]], T],
        recorder: Recorder,
        *,
        warm_up: int = WARM_UP,
        generators: Callable[[], Iterable[torch.Generator]] = tuple,
        ready: Callable[[], None] = lambda: None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._recorder, self._left = work, recorder, warm_up
        self._generators, self._ready, self._refused = generators, ready, refused
        self._plain = False
        self._recording: tuple[Work[T], Sequence[Tensor]] | None = None

    def __call__(self, inputs: Sequence[Tensor]) -> T:
        """Do the work on these."""
        if self._left:
            self._left -= 1
            return self._recorder.run(lambda: self._work(inputs))
        if self._recording is None and not self._plain:
            self._recording = self._record(inputs)
        if self._recording is None:
            return self._recorder.run(lambda: self._work(inputs))
        replay, into = self._recording
        for old, new in zip(into, inputs, strict=True):
            old.copy_(new, non_blocking=True)
        return replay()

    def _record(self, inputs: Sequence[Tensor]) -> tuple[Work[T], Sequence[Tensor]] | None:
        into = [each.clone() for each in inputs]
        self._ready()
        try:
            return self._recorder.record(lambda: self._work(into), self._generators()), into
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"the step could not be recorded and goes on unrecorded: {reason}", stacklevel=2)
            self._plain = True
            self._refused()
            return None
