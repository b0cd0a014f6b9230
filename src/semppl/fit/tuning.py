"""Fine-tuning as a stage: rates chosen on the validation labels, within the time that is left.

Shapes: L labelled images.
"""

import time
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from semppl.evaluate.exam import Exam
from semppl.evaluate.features import whole_batches
from semppl.evaluate.finetune import (
    DEFAULT_SWEEP,
    FineTuned,
    Rates,
    choose_rates,
    epochs_for,
    fine_tune,
    first_layer,
    predict_logits,
)
from semppl.fit.desk import Desk
from semppl.fit.verdict import OURS, Row, examined
from semppl.nets.heads import Projected
from semppl.train.progress import StageProgress

BATCH: Final = 128
# steps of one fine-tuning where 30 epochs of few labels would be fewer
_FEWEST, _MOST = 50, 300
_TIMED: Final = 3
# of the time that pre-training took
_SHARE: Final = 0.5


@dataclass(frozen=True)
class Tuning:
    """How a network is fine-tuned."""

    rates: Rates
    steps: int
    """At least."""


def tune(
    desk: Desk, online: Projected, index_L: Tensor, labels_L: Tensor, tuning: Tuning, title: str
) -> FineTuned:
    """Fine-tune a copy of the encoder on some labels, by the paper's protocol."""
    epochs = epochs_for(len(labels_L), BATCH, tuning.steps)
    steps = -(-epochs * len(labels_L) // max(min(BATCH, len(labels_L)), 2))
    with StageProgress(desk.console, title, steps) as progress:
        return _tuned(desk, online, index_L, labels_L, tuning.rates, epochs, progress)


def _tuned(
    desk: Desk,
    online: Projected,
    index_L: Tensor,
    labels_L: Tensor,
    rates: Rates,
    epochs: int,
    progress: StageProgress | None = None,
) -> FineTuned:
    return fine_tune(
        online.encoder,
        first_layer(online.projector),  # type: ignore[arg-type]  # a head is a sequence
        desk.crops(index_L),
        labels_L,
        classes=len(desk.dataset.classes),
        rates=rates,
        epochs=epochs,
        batch_size=BATCH,
        seed=desk.config.seed,
        device=desk.device,
        advance=None if progress is None else lambda done, _: progress.advance(done),
    )


def fine_tuned(
    desk: Desk, online: Projected, exam: Exam, validation: Exam | None, seconds: float
) -> tuple[Tuning, Row]:
    """The row of the table, and how to do it again.

    Without validation labels nothing can be chosen and the second rates of the sweep are taken. `seconds` is
    what pre-training took.
    """
    index_L = desk.dataset.labelled_L
    labels_L = desk.dataset.labels_M[index_L]
    sweep = DEFAULT_SWEEP if validation is not None else DEFAULT_SWEEP[1:2]
    start, models = time.monotonic(), dict[Rates, FineTuned]()
    steps = _steps(desk, online, len(sweep) + 1, seconds)

    def train(rates: Rates) -> FineTuned:
        title = f"fine-tuning {len(models) + 1}/{len(sweep)}"
        models[rates] = tune(desk, online, index_L, labels_L, Tuning(rates, steps), title)
        return models[rates]

    def score(model: FineTuned) -> float:
        if validation is None:
            return 0.0
        return float(validation.mark(answers(desk, model, validation)).float().mean())

    rates, _ = choose_rates(train, score, sweep)
    took = time.monotonic() - start
    model = models[rates]
    row = examined(OURS, "fine-tuned", lambda of: answers(desk, model, of), exam, validation, took)
    return Tuning(rates, steps), row


def _steps(desk: Desk, online: Projected, runs: int, seconds: float) -> int:
    """Of each run, so that all of them take about half as long as pre-training did; timed on a few."""
    index_L = desk.dataset.labelled_L[:BATCH]
    labels_L = desk.dataset.labels_M[index_L]
    _tuned(desk, online, index_L, labels_L, DEFAULT_SWEEP[0], 1)
    clock = time.monotonic()
    _tuned(desk, online, index_L, labels_L, DEFAULT_SWEEP[0], _TIMED)
    each = (time.monotonic() - clock) / _TIMED
    return min(max(int(_SHARE * seconds / runs / each), _FEWEST), _MOST)


def answers(desk: Desk, model: nn.Module, exam: Exam) -> Tensor:
    """Of a network with a classifier of its own."""
    mean_3, std_3 = desk.statistics
    views = whole_batches(
        exam.images, size=desk.size, mean_3=mean_3, std_3=std_3, batch_size=256, workers=desk.workers
    )
    return predict_logits(model, views).argmax(1)
