"""The loop around the step: metrics, probes, checkpoints, signals; what goes wrong is left to `recovery`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import torch

from semppl.core.batch import Batch
from semppl.core.errors import RunError
from semppl.train.build import Training
from semppl.train.interrupt import Interrupted, Stopper
from semppl.train.monitor import Probe, Tally
from semppl.train.recovery import Recovery
from semppl.train.step import Outcome
from semppl.train.writer import Writer

Report = Callable[[dict[str, Any]], None]
# seconds between two looks at a writer that is not done
_LOOK: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """Steps between two of each; 0: never, or of checkpoints the last alone."""

    log: int
    probe: int
    checkpoint: int
    sheet: int = 0


@final
@dataclass(kw_only=True)
class Loop:
    """Trains to the end, or until a signal; every way out leaves a checkpoint behind, or the last good one.

    `advance` hears of each step, `report` of each line of metrics; `writer` keeps both on disk and belongs to
    the main rank alone, and so does `show`, which makes a picture. `hint` tells the person who stopped it how
    to go on.
    """

    training: Training
    recovery: Recovery
    tally: Tally
    probe: Probe
    cadence: Cadence
    writer: Writer | None
    facts: dict[str, Any]
    advance: Callable[[int], None]
    report: Report
    hint: str
    show: Callable[[], None] | None = None

    def run_(self) -> int:
        """All steps that are left. Gives the signal that came too late to stop any of them, or 0."""
        state, total, ranks = self.training.state, self.training.total_steps, self.training.ranks
        pace = _Pace(self.training)
        with Stopper() as stop:
            signum = 0
            while state.step < total:
                batch = self.training.feed(state.step)
                # after the wait for data, so that a rank which waits there for ever is known to be missing
                if signum := ranks.largest(stop.signum or 0):
                    break
                self.recovery.note(_step(self.training, batch), batch)
                self.advance(state.step)
                last = state.step == total
                if state.step % self.cadence.log == 0 or last:
                    self._log(pace)
                if last or (self.cadence.checkpoint and state.step % self.cadence.checkpoint == 0):
                    self._save(stop, pace)
            if signum:
                self._save(stop, pace)
            self._finish(stop)
            if signum:
                raise Interrupted(
                    f"stopped at step {state.step} of {total}; its checkpoint is written: {self.hint}", signum
                )
            return ranks.largest(stop.signum or 0)

    def _log(self, pace: "_Pace") -> None:
        self.recovery.settle_()
        state, plan = self.training.state, self.training.plan
        epoch = state.step * self.training.feed.batch_size / self.training.feed.num_images
        row: dict[str, Any] = {"step": state.step, "epoch": epoch}
        row |= {"lr": plan.lr(state.step - 1), "target_decay": plan.decay(state.step - 1)}
        row |= self.tally.flush_() | pace.measured()
        if self.recovery.skipped:
            row["skipped_steps"] = self.recovery.skipped
        if self._due(self.cadence.probe):
            row |= self.probe(state.online.encoder)
        if self.writer is not None:
            self.writer.row(row)
        self.report(row)
        if self.show is not None and self._due(self.cadence.sheet):
            self.show()
        pace.restart()

    def _due(self, every: int) -> bool:
        """With the first line of metrics after so many steps, and with the last."""
        step, total = self.training.state.step, self.training.total_steps
        return every > 0 and (step % every < self.cadence.log or step == total)

    def _save(self, stop: Stopper, pace: "_Pace") -> None:
        """Hand over a checkpoint, once the one before it is on disk: hours, where a disk is full, and no
        step's.
        """
        self.recovery.settle_()
        began = time.perf_counter()
        self._wait(stop)
        pace.leave_out(time.perf_counter() - began)
        if self.writer is not None:
            self.writer.checkpoint(self.recovery.safe, self.facts)

    def _wait(self, stop: Stopper) -> None:
        """All ranks together; a full disk holds them here until there is room, or a signal ends it."""
        ranks = self.training.ranks
        while ranks.largest(int(self.writer is not None and self.writer.busy)):
            stuck = self.writer is not None and self.writer.stuck is not None
            if ranks.largest(int(stuck)) and ranks.largest(stop.signum or 0):
                self._give_up()
            time.sleep(_LOOK)

    def _finish(self, stop: Stopper) -> None:
        self._wait(stop)
        if self.writer is not None:
            self.writer.close()

    def _give_up(self) -> None:
        """A signal during a pause: what is on disk is whole, and the rest will be done again."""
        why = "the disk of the main rank is full" if self.writer is None else self.writer.stuck
        if self.writer is not None:
            self.writer.close(give_up=True)
        raise RunError(f"stopped without its last checkpoint ({why}): make room, then {self.hint}")


@final
class _Pace:
    """Images and waiting since the last line of metrics."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.restart()

    def restart(self) -> None:
        """From now on."""
        self._clock, self._step = time.perf_counter(), self._training.state.step
        self._waited = self._training.feed.waited

    def leave_out(self, seconds: float) -> None:
        """They were none of the steps'."""
        self._clock += seconds

    def measured(self) -> dict[str, float]:
        """Of all ranks together; waiting is this rank's."""
        feed, seconds = self._training.feed, time.perf_counter() - self._clock
        images = (self._training.state.step - self._step) * feed.batch_size
        return {"images_per_second": images / seconds, "data_wait": (feed.waited - self._waited) / seconds}


def _step(training: Training, batch: Batch) -> Outcome:
    try:
        with training.ranks.blaming():
            return training.step(batch)
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"the memory of {training.device} is full: go on with --resume --micro-batch "
            f"{training.feed.batch_size}, which computes more and keeps less, or start a new run with a part "
            "of that, or with a smaller --batch-size"
        ) from error
