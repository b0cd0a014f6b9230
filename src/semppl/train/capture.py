"""The whole step recorded once as a CUDA graph and replayed: the host sends one command instead of thousands.

A step can be recorded because its shapes are fixed, nothing in it asks the device for a number, and all that
changes from one step to the next is written into memory that the recording reads: the batch, the rates, and
the seeds of the generators. A replayed step computes what `train_step_` computes (`semppl bench` compares).
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar, final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.rng import stream
from semppl.train.state import TrainState
from semppl.train.step import Mark, Outcome, Plan, Tick, ignore, train_step_

T = TypeVar("T")
Work = Callable[[], T]


class Recorder(Protocol):
    """Runs work, or records it."""

    def run(self, work: Work[T]) -> T:
        """Do it now, where it would be recorded."""

    def record(self, work: Work[T], generators: Iterable[torch.Generator]) -> Work[T]:
        """What does it again with the memory that it used; recording itself does nothing."""


@final
class CudaRecorder:
    """Records as a CUDA graph."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)

    def run(self, work: Work[T]) -> T:
        """On the stream that will record: libraries keep workspaces for each stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            outcome = work()
        current.wait_stream(self._stream)
        return outcome

    def record(self, work: Work[T], generators: Iterable[torch.Generator] = ()) -> Work[T]:
        """The recording has memory of its own, so what was used before is given back first."""
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
class CapturedStep:
    """Batch → Outcome. The first `warm_up` steps run as they are: they make the buffers of the optimiser and
    let libraries choose their kernels, which cannot be recorded.
    """

    def __init__(
        self,
        state: TrainState,
        plan: Plan,
        *,
        warm_up: int = 3,
        mark: Mark = ignore,
        recorder: Recorder | None = None,
    ) -> None:
        self._state, self._plan, self._left, self._mark = state, plan, warm_up, mark
        self._device = plan.mean_3.device
        self._recorder = recorder or CudaRecorder(self._device)
        self._generators: dict[str, torch.Generator] = {}
        self._lr = torch.zeros((), device=self._device)
        self._decay = torch.zeros((), device=self._device)
        self._recorded: tuple[Work[Outcome], Batch] | None = None
        self._refused = False

    def __call__(self, batch: Batch) -> Outcome:
        """One step; what it returns stays valid."""
        step = self._state.step
        self._set_tick_(step)
        if self._left:
            self._left -= 1
            return self._recorder.run(lambda: self._step(batch))
        if self._recorded is None and not self._refused:
            self._recorded = self._record(batch)
        if self._recorded is None:
            return self._recorder.run(lambda: self._step(batch))
        replay, into = self._recorded
        _copy_(into, batch)
        outcome = _cloned(replay())
        self._state.step = step + 1
        return outcome

    def _step(self, batch: Batch) -> Outcome:
        constant = self._plan.constant_decay
        tick = Tick(self._lr, self._decay if constant is None else constant, self._draw)
        return train_step_(self._state, batch, self._plan, tick, self._mark)

    def _draw(self, name: str) -> torch.Generator:
        if name not in self._generators:
            self._generators[name] = torch.Generator(self._device)
            self._generators[name].manual_seed(stream(self._plan.seed, name, self._state.step))
        return self._generators[name]

    def _set_tick_(self, step: int) -> None:
        self._lr.fill_(self._plan.lr(step))
        self._decay.fill_(self._plan.decay(step))
        for name, generator in self._generators.items():
            generator.manual_seed(stream(self._plan.seed, name, step))

    def _record(self, batch: Batch) -> tuple[Work[Outcome], Batch] | None:
        """None where the device refuses: then steps go on as they are."""
        into = replace(
            batch,
            crops=tuple(crop.clone() for crop in batch.crops),
            labels_B=batch.labels_B.clone(),
            index_B=batch.index_B.clone(),
            oracle_B=None if batch.oracle_B is None else batch.oracle_B.clone(),
        )
        step = self._state.step
        self._state.optimizer.zero_grad(set_to_none=True)
        try:
            replay = self._recorder.record(lambda: self._step(into), self._generators.values())
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"the step could not be recorded and goes on unrecorded: {reason}", stacklevel=2)
            self._refused = True
            # a recording that failed may have left its mark on them
            self._generators.clear()
            return None
        finally:
            self._state.step = step
        return replay, into


def _copy_(into: Batch, batch: Batch) -> None:
    pairs: list[tuple[Tensor, Tensor]] = [
        *zip(into.crops, batch.crops, strict=True),
        (into.labels_B, batch.labels_B),
        (into.index_B, batch.index_B),
    ]
    if into.oracle_B is not None and batch.oracle_B is not None:
        pairs.append((into.oracle_B, batch.oracle_B))
    for old, new in pairs:
        old.copy_(new, non_blocking=True)


def _cloned(outcome: Outcome) -> Outcome:
    """The next replay writes over the recording's own."""
    terms = type(outcome.terms)(*torch.stack(list(outcome.terms)).unbind())
    votes = outcome.votes
    return Outcome(terms, None if votes is None else type(votes)(*(part.clone() for part in votes)))
