"""Fine-tuning as a stage: rates chosen on the validation labels, within the time that is left.

Shapes: L labelled images.
"""

import time
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from semppl.evaluate.exam import Exam
from semppl.evaluate.finetune import (
    DEFAULT_SWEEP,
    EPOCHS,
    FineTuned,
    Rates,
    choose_best,
    images_per_step,
)
from semppl.fit.clock import StepClock
from semppl.fit.verdict import OURS, Row, examined
from semppl.nets.heads import Projected
from semppl.protocols.desk import Desk
from semppl.protocols.tuning import tune

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


def fine_tuned(
    desk: Desk, online: Projected, exam: Exam, validation: Exam | None, seconds: float
) -> tuple[Tuning, Row, FineTuned]:
    """How it was done, the row of the table, and the network.

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

    rates, _ = choose_best(sweep, score)
    took = seconds + time.monotonic() - start
    model = models[rates]
    row = examined(OURS, "fine-tuned", lambda of: answers(desk, model, of), exam, validation, took)
    return Tuning(rates, steps), row, model


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
