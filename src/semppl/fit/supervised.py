"""The baseline that every result must beat: the same network and time, with the labels alone.

Shapes: L labelled images.
"""

import time
from collections.abc import Callable

from torch import nn

from semppl.evaluate.baselines import train_supervised_
from semppl.evaluate.exam import Exam
from semppl.fit.clock import StepClock
from semppl.fit.tuning import answers
from semppl.fit.verdict import SUPERVISED, Row, examined
from semppl.protocols.desk import Desk
from semppl.protocols.supervised import fresh
from semppl.train.progress import StageProgress

_FEWEST, _MOST = 100, 10_000


def supervised(desk: Desk, exam: Exam, validation: Exam | None, seconds: float) -> Row:
    """From scratch with the same labels, for as long as pre-training took, within 10,000 steps."""
    dataset, (mean_3, std_3) = desk.dataset, desk.statistics
    pixels_L3HW, labels_L = desk.pixels(dataset.labelled_L), dataset.labels_M[dataset.labelled_L]

    def train(steps: int, advance: Callable[[int], None] | None = None) -> nn.Module:
        encoder = fresh(desk, pretrained=False)
        head = train_supervised_(
            encoder,
            pixels_L3HW,
            labels_L,
            num_features=int(encoder.num_features),  # type: ignore[arg-type]
            classes=len(dataset.classes),
            view=desk.view,
            mean_3=mean_3,
            std_3=std_3,
            steps=steps,
            seed=desk.config.seed,
            advance=advance,
        )
        return nn.Sequential(encoder, head)

    clock = StepClock(desk.device)
    train(clock.steps, clock.tick)
    steps = min(max(int(seconds / clock.seconds), _FEWEST), _MOST)
    start = time.monotonic()
    with StageProgress(desk.console, "training on the labels alone", steps) as progress:
        model = train(steps, progress.advance)
    took = time.monotonic() - start
    return examined(SUPERVISED, "own head", lambda of: answers(desk, model, of), exam, validation, took)
