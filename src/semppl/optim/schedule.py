"""Schedules as pure functions of the step."""

import math
from typing import Literal


def warmup_cosine(step: int, *, peak: float, warmup: int, total: int) -> float:
    """0 → peak linearly over `warmup` steps, then half a cosine to 0 at `total`."""
    if step < warmup:
        return peak * step / warmup
    progress = min((step - warmup) / max(total - warmup, 1), 1.0)
    return 0.5 * peak * (1.0 + math.cos(math.pi * progress))


def target_decay(
    step: int, *, base: float, total: int, schedule: Literal["constant", "cosine"] = "constant"
) -> float:
    """γ: constant as in the paper, or BYOL's 1 − (1 − base)(1 + cos πk/K)/2, which ends at 1."""
    if schedule == "constant":
        return base
    if schedule != "cosine":
        raise ValueError(f"unknown schedule {schedule!r}: choose constant or cosine")
    progress = min(step / max(total, 1), 1.0)
    return 1.0 - (1.0 - base) * (1.0 + math.cos(math.pi * progress)) / 2.0
