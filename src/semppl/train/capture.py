"""The whole step recorded once as a CUDA graph and replayed: the host sends one command instead of thousands.

A step can be recorded because its shapes are fixed, nothing in it asks the device for a number, and all that
changes from one step to the next is written into memory that the recording reads: the batch, the rates, and
the seeds of the generators. A replayed step computes what `train_step_` computes (`semppl bench` compares).
"""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.errors import RunError
from semppl.core.rng import stream
from semppl.train.state import TrainState
from semppl.train.step import Mark, Outcome, Plan, Tick, ignore, train_step_


@final
class CapturedStep:
    """Batch → Outcome. The first `warm_up` steps run as they are: they make the buffers of the optimiser and
    let libraries choose their kernels, which cannot be recorded.
    """

    def __init__(self, state: TrainState, plan: Plan, *, warm_up: int = 3, mark: Mark = ignore) -> None:
        self._state, self._plan, self._left, self._mark = state, plan, warm_up, mark
        self._device = plan.mean_3.device
        self._stream = torch.cuda.Stream(self._device)
        self._generators: dict[str, torch.Generator] = {}
        self._lr = torch.zeros((), device=self._device)
        self._decay = torch.zeros((), device=self._device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None
        self._outcome: Outcome | None = None

    def __call__(self, batch: Batch) -> Outcome:
        """One step; what it returns stays valid."""
        self._set_tick_(self._state.step)
        if self._left:
            self._left -= 1
            return self._step_beside(batch)
        if self._graph is None:
            self._record_(batch)
        if self._graph is None or self._batch is None or self._outcome is None:
            raise AssertionError("a recording has all of these")
        _copy_(self._batch, batch)
        self._graph.replay()
        self._state.step += 1
        return _cloned(self._outcome)

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

    def _step_beside(self, batch: Batch) -> Outcome:
        """On the stream that will record: libraries keep workspaces for each stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            outcome = train_step_(self._state, batch, self._plan, self._tick, self._mark)
        current.wait_stream(self._stream)
        return outcome

    @property
    def _tick(self) -> Tick:
        constant = self._plan.constant_decay
        return Tick(self._lr, self._decay if constant is None else constant, self._draw)

    def _record_(self, batch: Batch) -> None:
        self._batch = replace(
            batch,
            crops=tuple(crop.clone() for crop in batch.crops),
            labels_B=batch.labels_B.clone(),
            index_B=batch.index_B.clone(),
            oracle_B=None if batch.oracle_B is None else batch.oracle_B.clone(),
        )
        graph, step = torch.cuda.CUDAGraph(), self._state.step
        for generator in self._generators.values():
            graph.register_generator_state(generator)
        self._state.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize(self._device)
        # the recording has memory of its own: what the first steps used is given back before
        torch.cuda.empty_cache()
        try:
            # other threads, such as those that pin memory for the feed, go on meanwhile
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._outcome = train_step_(self._state, self._batch, self._plan, self._tick, self._mark)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise RunError(
                f"the step could not be recorded ({reason}): go on with --resume --speed eager"
            ) from error
        # recording runs nothing
        self._state.step = step
        self._graph = graph


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
