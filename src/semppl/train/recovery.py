"""Steps that end in numbers which are not finite are undone and left out.

No step waits for its loss: losses stay on the device, and `settle_` looks at those since the last call and
at the weights. If anything is not finite, the run goes back to where all was well, which is a few steps ago,
and does these steps again one at a time. A bad one is undone as a whole, batch statistics, queue and momentum
included, as if its batch had never been drawn. Draws are functions of the step, so the good ones repeat.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.errors import Elsewhere, RunError
from semppl.core.rundir import RunDirectory, write_text
from semppl.train.build import Training
from semppl.train.monitor import Tally
from semppl.train.state import TrainState
from semppl.train.step import Outcome

IN_A_ROW: Final = 3
"""Bad steps, after which the run stops: it would not be one batch then."""


@final
class Recovery:
    """`note` each step, `settle_` now and then; `safe` is the state as it was when last settled."""

    def __init__(
        self,
        training: Training,
        run: RunDirectory,
        names: Sequence[str],
        tally: Tally,
        say: Callable[[str], None],
    ) -> None:
        self._training, self._run, self._names, self._tally, self._say = training, run, names, tally, say
        self._losses: list[Tensor] = []
        self._in_a_row = 0
        self.skipped = 0
        self.safe: dict[str, Any] = training.state.snapshot()

    def note(self, outcome: Outcome, batch: Batch) -> None:
        """One step."""
        self._losses.append(outcome.terms.total)
        self._tally.add_(outcome, batch)

    def settle_(self) -> None:
        """After this the state is finite, and so is everything in the tally."""
        if not self._losses:
            return
        if self._sound(self._losses):
            self._in_a_row = 0
        else:
            self._again_()
        self._losses.clear()
        self.safe = {}  # its memory first
        self.safe = self._training.state.snapshot()

    def _sound(self, losses: Sequence[Tensor]) -> bool:
        """On all ranks, or on none."""
        fine = bool(torch.stack(list(losses)).isfinite().all()) and finite(self._training.state)
        return not self._training.ranks.largest(int(not fine))

    def _again_(self) -> None:
        training, state = self._training, self._training.state
        end = state.step
        state.restore_(self.safe)
        self._tally.flush_()
        while state.step < end:
            before, step = state.snapshot(), state.step
            batch = training.feed(step)
            outcome = training.step(batch)
            if self._sound([outcome.terms.total]):
                self._in_a_row = 0
                self._tally.add_(outcome, batch)
                continue
            loss = float(outcome.terms.total)
            state.restore_(before)
            state.step = step + 1
            self._skip(step, loss, batch)

    def _skip(self, step: int, loss: float, batch: Batch) -> None:
        self.skipped += 1
        self._in_a_row += 1
        what = f"the loss is {loss}" if not math.isfinite(loss) else "weights are not finite after the update"
        names = [self._names[i] for i in batch.index_B.tolist()]
        listing = self._run.path / "bad_batch.txt"
        if self._training.ranks.main:
            with suppress(OSError):  # a full disk: the first names are said anyway
                write_text(listing, "\n".join(names) + "\n")
        of = f"batch of {', '.join(names[:2])}, … (all names in {listing})"
        if self._in_a_row < IN_A_ROW:
            self._say(f"step {step} was left out: {what}, {of}")
            return
        if not self._training.ranks.main:
            raise Elsewhere("the main rank says why")
        raise RunError(
            f"{what} at step {step}, the {IN_A_ROW}rd in a row, {of}: look at these images, go on with "
            "--resume --precision fp32, or start a new run with a lower --optim.base-lr or a longer "
            "--optim.warmup-epochs; no checkpoint holds what went wrong"
        )


def finite(state: TrainState) -> bool:
    """All weights."""
    weights: list[Tensor] = [*state.online.parameters(), *state.predictor.parameters()]
    return bool(torch.stack(torch._foreach_norm(weights)).isfinite().all())
