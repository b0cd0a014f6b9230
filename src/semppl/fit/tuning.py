"""Fine-tuning as a stage: rates chosen on the validation labels, within the time that is left.

Shapes: L labelled images.
"""

import time
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from semppl.evaluate.exam import Exam, Mark, marked
from semppl.evaluate.finetune import (
    DEFAULT_SWEEP,
    EPOCHS,
    FineTuned,
    Rates,
    best_first,
    images_per_step,
    ran_away,
)
from semppl.fit.clock import StepClock
from semppl.fit.verdict import OURS, Row, examined
from semppl.nets.heads import Projected
from semppl.protocols.desk import Desk
from semppl.protocols.tuning import right_on, tune

BATCH: Final = 128
# steps of one fine-tuning: 300, or 30 epochs where they are more, and less where time is short
_FEWEST, _MOST = 50, 300
# of the time that pre-training took
_SHARE: Final = 0.5


@dataclass(frozen=True)
class Tuning:
    """How a network is fine-tuned."""

    rates: Rates
    steps: int

    def run(self, desk: Desk, online: Projected, index_L: Tensor, labels_L: Tensor, title: str) -> FineTuned:
        """Fine-tune a copy of the encoder on some labels."""
        count = images_per_step(len(labels_L), BATCH)
        return tune(
            desk,
            online,
            index_L,
            labels_L,
            rates=self.rates,
            epochs=max(round(self.steps * count / len(labels_L)), 1),
            batch_size=BATCH,
            seed=desk.config.seed,
            title=title,
        )


@dataclass(frozen=True)
class Tuned:
    """A network that was fine-tuned and measured."""

    how: Tuning
    model: FineTuned
    promised: Mark | None
    """What it has on the validation labels, where there are any."""

    def once_more(self, desk: Desk, online: Projected, index_L: Tensor, labels_L: Tensor) -> FineTuned:
        """On all labels, those for validation included; where that runs away, the one that was measured."""
        model = self.how.run(desk, online, index_L, labels_L, "fine-tuning on all labels")
        if self.promised is None:
            return model
        own = marked(right_on(desk, model, index_L, labels_L))
        if not ran_away(own, self.promised):
            return model
        desk.say(
            f"fine-tuning on all labels ran away ({own.accuracy:.0f} % of these right): the "
            "model is the one that was measured, which has not seen the validation labels"
        )
        return self.model


def fine_tuned(
    desk: Desk, online: Projected, exam: Exam, validation: Exam | None, seconds: float
) -> tuple[Tuned, Row]:
    """The network with how it was made, and the row of the table.

    Without validation labels nothing can be chosen and the second rates of the sweep are taken. `seconds` is
    what pre-training took.
    """
    index_L = desk.dataset.labelled_L
    labels_L = desk.dataset.labels_M[index_L]
    sweep = DEFAULT_SWEEP if validation is not None else DEFAULT_SWEEP[1:2]
    start, models = time.monotonic(), dict[Rates, FineTuned]()
    steps = _steps(desk, online, len(sweep) + 1, seconds)

    def score(rates: Rates) -> float:
        title = f"fine-tuning {len(models) + 1}/{len(sweep)}"
        models[rates] = Tuning(rates, steps).run(desk, online, index_L, labels_L, title)
        if validation is None:
            return 0.0
        return float(validation.mark(answers(desk, models[rates], validation)).float().mean())

    rates = next(iter(best_first(sweep, score)))
    took = seconds + time.monotonic() - start
    model = models[rates]
    row = examined(OURS, "fine-tuned", lambda of: answers(desk, model, of), exam, validation, took)
    promised = None if row.right_V is None else marked(row.right_V)
    return Tuned(Tuning(rates, steps), model, promised), row


def _steps(desk: Desk, online: Projected, runs: int, seconds: float) -> int:
    """Of each run, so that all of them take at most about half as long as pre-training did."""
    index_L, clock = desk.dataset.labelled_L, StepClock(desk.device)
    some_L = index_L[:BATCH]
    tune(
        desk,
        online,
        some_L,
        desk.dataset.labels_M[some_L],
        rates=DEFAULT_SWEEP[0],
        epochs=clock.steps,
        batch_size=BATCH,
        seed=desk.config.seed,
        title=None,
        advance=clock.tick,
    )
    wanted = max(_MOST, EPOCHS * len(index_L) // images_per_step(len(index_L), BATCH))
    return min(max(int(_SHARE * seconds / runs / clock.seconds), _FEWEST), wanted)


def answers(desk: Desk, model: nn.Module, exam: Exam) -> Tensor:
    """Of a network with a classifier of its own."""
    return desk.logits(model, exam.images).argmax(1)
