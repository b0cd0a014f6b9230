"""The whole step of training as a recording (`core/recording.py`).

What changes from one step to the next, the batch, the rates and the seeds of the generators, is written into
memory that the recording reads. A replayed step computes what `train_step_` computes (`semppl bench`
compares).
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.recording import WARM_UP, CudaRecorder, Recorded, Recorder
from semppl.core.rng import stream
from semppl.train.state import TrainState
from semppl.train.step import Mark, Outcome, Plan, Tick, ignore, train_step_


@final
class CapturedStep:
    """Batch → Outcome. The first `warm_up` steps run as they are."""

    def __init__(
        self,
        state: TrainState,
        plan: Plan,
        *,
        warm_up: int = WARM_UP,
        mark: Mark = ignore,
        recorder: Recorder | None = None,
    ) -> None:
        self._state, self._plan, self._mark = state, plan, mark
        self._device = plan.mean_3.device
        self._generators: dict[str, torch.Generator] = {}
        self._lr = torch.zeros((), device=self._device)
        self._decay = torch.zeros((), device=self._device)
        self._step = state.step
        self._recorded = Recorded(
            self._work,
            recorder or CudaRecorder(self._device),
            warm_up=warm_up,
            generators=self._generators.values,
            ready=lambda: state.optimizer.zero_grad(set_to_none=True),
            refused=self._start_over_,
        )

    def __call__(self, batch: Batch) -> Outcome:
        """One step; what it returns stays valid."""
        self._step = self._state.step
        self._set_tick_()
        try:
            outcome = _cloned(self._recorded(_tensors(batch)))
        except BaseException:
            self._state.step = self._step
            raise
        # a replay counts no step
        self._state.step = self._step + 1
        return outcome

    def _work(self, tensors: Sequence[Tensor]) -> Outcome:
        constant = self._plan.constant_decay
        tick = Tick(self._lr, self._decay if constant is None else constant, self._draw)
        return train_step_(self._state, _batch(tensors, len(self._plan.views)), self._plan, tick, self._mark)

    def _draw(self, name: str) -> torch.Generator:
        if name not in self._generators:
            self._generators[name] = torch.Generator(self._device)
            self._generators[name].manual_seed(stream(self._plan.seed, name, self._step))
        return self._generators[name]

    def _set_tick_(self) -> None:
        self._lr.fill_(self._plan.lr(self._step))
        self._decay.fill_(self._plan.decay(self._step))
        for name, generator in self._generators.items():
            generator.manual_seed(stream(self._plan.seed, name, self._step))

    def _start_over_(self) -> None:
        """A recording that failed may have left its mark on the generators, and counted a step."""
        self._generators.clear()
        self._state.step = self._step


def _tensors(batch: Batch) -> list[Tensor]:
    given = (*batch.crops, batch.labels_B, batch.index_B, batch.oracle_B)
    return [tensor for tensor in given if tensor is not None]


def _batch(tensors: Sequence[Tensor], num_views: int) -> Batch:
    """`_tensors`, back again."""
    labels_B, index_B, *oracle = tensors[num_views:]
    return Batch(tuple(tensors[:num_views]), labels_B, index_B, oracle[0] if oracle else None)


def _cloned(outcome: Outcome) -> Outcome:
    """The next replay writes over the recording's own."""
    terms = type(outcome.terms)(*torch.stack(list(outcome.terms)).unbind())
    votes = outcome.votes
    return Outcome(terms, None if votes is None else type(votes)(*(part.clone() for part in votes)))
