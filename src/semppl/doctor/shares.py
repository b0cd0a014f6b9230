"""The time of one of several devices for its share of a batch."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final, Literal, NamedTuple

from semppl.doctor.largest import part_of
from semppl.doctor.probe import through, time_loss, tried
from semppl.doctor.trials import FEW, SHORT_SECONDS, SHORT_STEPS, Probed, Trial
from semppl.train.build import Training

# images that are encoded in parts are encoded twice by one of two networks: measured in docs/performance.md
_TWICE: Final = 1.29

How = Literal["measured", "scaled", "in parts"]


class Share(NamedTuple):
    """Seconds of one rank for its rows, how they were found, and into which parts it has to cut them."""

    seconds: float
    how: How
    part: int | None = None


def time_share(trial: Trial, probed: Probed, world: int) -> Share:
    """Encoding, voting and updating; see `losses` for the rest."""
    rows, own = rows_of(trial, world), trial.subject.config.micro_batch
    if world == 1 and rows == probed.steps.images:
        return Share(probed.steps.median, "measured", own)
    part = part_of(rows, probed.largest) or min(rows, probed.largest)
    if probed.few is not None:
        seconds = through(probed.few, probed.steps, rows)
        if rows <= probed.largest or own is not None:
            return Share(seconds, "scaled", own)
        return Share(_TWICE * seconds, "in parts", part)
    # ranks wait for each other, so their steps are not recorded
    how: dict[str, Any] = {"steps": SHORT_STEPS, "seconds": SHORT_SECONDS, "recorded": world == 1}
    how["fed"] = probed.loader is None
    if rows <= probed.largest and (whole := trial.attempt(rows, **how)):
        return Share(whole.median, "measured", own)
    again = trial.attempt(part, parts=part, **how) or probed.steps
    return Share(again.median * rows / again.images, "in parts", part)


def rows_of(trial: Trial, world: int) -> int:
    """Of the rank that has most; a single image has no batch statistics, so two stand for it."""
    return max(ceil(trial.subject.config.images_per_step / world), FEW)


def losses(trial: Trial, worlds: Sequence[int]) -> Mapping[int, float]:
    """Seconds of the whole batch's loss beyond that of a rank's own rows, which its steps had already."""
    config, batch = trial.subject.to_try(FEW), trial.subject.config.images_per_step

    def beyond(training: Training) -> dict[int, float]:
        whole = time_loss(training, config, batch)
        own = {world: time_loss(training, config, rows_of(trial, world)) for world in worlds if world > 1}
        return {world: max(whole - own.get(world, whole), 0.0) for world in worlds}

    found = tried(config, trial.subject.dataset, trial.device, beyond)
    return dict.fromkeys(worlds, 0.0) if found is None else found
