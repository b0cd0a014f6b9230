"""The loop around the step: metrics, probes, checkpoints, signals, and a loss that is not a number."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, final

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory, write_text
from semppl.train.build import Training
from semppl.train.interrupt import Interrupted, Stopper
from semppl.train.monitor import Probe, Tally
from semppl.train.state import TrainState, save_checkpoint
from semppl.train.step import Outcome

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """Steps between two of each."""

    log: int
    probe: int
    checkpoint: int
    keep: int


def run_loop_(
    training: Training,
    run: RunDirectory,
    *,
    facts: dict[str, Any],
    names: Sequence[str],
    tally: Tally,
    probe: Probe,
    cadence: Cadence,
    advance: Callable[[int], None],
    report: Report,
    hint: str,
) -> None:
    """Train to the end, or until a signal; every way out but a bad loss leaves a checkpoint behind.

    `advance` hears of each step, `report` of each line of metrics, which the run directory keeps; `hint`
    tells the person who stopped it how to go on.
    """
    state, total = training.state, training.total_steps
    watch = LossWatch(run, names)
    clock, images_since, waited = time.perf_counter(), 0, 0.0

    def checkpoint() -> None:
        watch.verify(state)
        save_checkpoint(run, state, facts, keep=cadence.keep)

    with Stopper() as stop:
        while state.step < total and stop.signum is None:
            batch = training.feed(state.step)
            rates = {"lr": training.plan.lr(state.step), "target_decay": training.plan.decay(state.step)}
            outcome = _step(training, batch)
            watch.note(state.step - 1, outcome.terms.total, batch.index_B)
            tally.add_(outcome, batch)
            images_since += len(batch.labels_B)
            advance(state.step)

            last = state.step == total
            if state.step % cadence.log == 0 or last:
                watch.verify(state)
                epoch = state.step * training.feed.batch_size / training.feed.num_images
                row: dict[str, Any] = {"step": state.step, "epoch": epoch, **rates}
                row |= tally.flush_()
                seconds = time.perf_counter() - clock
                row["images_per_second"] = images_since / seconds
                row["data_wait"] = (training.feed.waited - waited) / seconds
                waited = training.feed.waited
                if state.step % cadence.probe < cadence.log or last:
                    row |= probe(state.online.encoder)
                run.append_metrics(row)
                report(row)
                clock, images_since = time.perf_counter(), 0
            if state.step % cadence.checkpoint == 0 or last:
                checkpoint()
        if stop.signum is not None:
            if state.step < total:
                checkpoint()
            raise Interrupted(
                f"stopped at step {state.step} of {total}; its checkpoint is written: {hint}",
                stop.signum,
            )


def _step(training: Training, batch: Batch) -> Outcome:
    try:
        return training.step(batch)
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"the memory of {training.device} is full: go on with --resume --micro-batch "
            f"{training.feed.batch_size}, which computes more and keeps less, or start a new run with a part "
            "of that, or with a smaller --batch-size"
        ) from error


@final
class LossWatch:
    """Remembers losses on the device and asks for them now and then, so that no step waits for an answer."""

    def __init__(self, run: RunDirectory, names: Sequence[str]) -> None:
        self._run, self._names = run, names
        self._pending: list[tuple[int, Tensor, Tensor]] = []

    def note(self, step: int, loss: Tensor, index_B: Tensor) -> None:
        """One step's loss and images."""
        self._pending.append((step, loss, index_B))

    def verify(self, state: TrainState) -> None:
        """Stop the run if a loss or a weight is not finite, naming the images of the batch at fault."""
        if not self._pending:
            return
        losses = torch.stack([loss for _, loss, _ in self._pending]).tolist()
        for (step, _, index_B), loss in zip(self._pending, losses, strict=True):
            if not math.isfinite(loss):
                self._stop(f"the loss is {loss} at step {step}", index_B)
        weights: list[Tensor] = [*state.online.parameters(), *state.predictor.parameters()]
        if not torch.stack(torch._foreach_norm(weights)).isfinite().all():
            self._stop(f"weights are not finite after step {self._pending[-1][0]}", self._pending[-1][2])
        self._pending.clear()

    def _stop(self, what: str, index_B: Tensor) -> NoReturn:
        names = [self._names[i] for i in index_B.tolist()]
        listing = self._run.path / "bad_batch.txt"
        write_text(listing, "\n".join(names) + "\n")
        raise RunError(
            f"{what}, batch of {names[0]}, {names[1]}, … (all names in {listing}): look at these images, "
            "go on with --resume --precision fp32, or start a new run with a lower --optim.base-lr or a "
            "longer --optim.warmup-epochs; no checkpoint holds what went wrong"
        )
