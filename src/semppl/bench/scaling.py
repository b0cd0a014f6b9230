"""How the method's own cost grows: queue, vote, positives and loss, forward and backward, without networks.

Shapes: A = V + S anchor views, V large views, S small, B images, C queue capacity, D dims, N negatives.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any, Final

import torch
from torch.nn import functional as F

from semppl.bench.floor import recorded
from semppl.bench.settings import BenchSettings
from semppl.bench.stopwatch import milliseconds, peak_memory
from semppl.core.labels import UNLABELLED
from semppl.method.negatives import draw_negatives
from semppl.method.objective import ReLICv2
from semppl.method.positives import sample_positives
from semppl.method.pseudo_labels import semantic_labels, vote
from semppl.method.queue import LabelledQueue
from semppl.train.device import choose_device


@dataclass(frozen=True)
class Size:
    """One point."""

    batch: int = 256
    queue: int = 81_920
    classes: int = 1000
    views: int = 4


SWEEPS: Final[dict[str, tuple[int, ...]]] = {
    "batch": (64, 128, 256, 512, 1024),
    "queue": (4096, 16_384, 81_920, 409_600),
    "classes": (10, 100, 1000, 20_000),
    "views": (1, 2, 4, 8),
}


def time_scaling(
    settings: BenchSettings, say: Callable[[str], None], sweeps: dict[str, tuple[int, ...]] = SWEEPS
) -> list[dict[str, Any]]:
    """A row for each point: its size, milliseconds, memory above what the queue and the inputs hold."""
    base = Size(settings.batch_size, settings.queue, settings.classes, settings.large)
    rows = []
    for factor, values in sweeps.items():
        say(f"cost against {factor}")
        for value in values:
            size = replace(base, **{factor: value})
            ms, peak_mb = method_cost(size, settings)
            rows.append({"factor": factor, "value": value, **asdict(size), "ms": ms, "peak_mb": peak_mb})
    return rows


def method_cost(size: Size, settings: BenchSettings) -> tuple[float, float | None]:
    """Milliseconds and megabytes of all that SemPPL does between its networks and their gradients.

    A CPU knows only the highest memory of the process so far, which says nothing about one point: None.
    """
    device, dim, small = choose_device(settings.device), 256, settings.small
    rng = torch.Generator().manual_seed(settings.seed)
    queue = LabelledQueue(size.views, size.queue, dim, size.classes, device=device)
    online = torch.randn(size.views + small, size.batch, dim, generator=rng).to(device).requires_grad_()
    target = F.normalize(torch.randn(size.views, size.batch, dim, generator=rng), dim=-1).to(device)
    labels_B = torch.randint(size.classes, (size.batch,), generator=rng)
    labels_B[torch.rand(size.batch, generator=rng) > 0.1] = UNLABELLED
    labels_B = labels_B.to(device)
    negatives_BN = draw_negatives(size.batch, 10, rng).to(device)
    objective = ReLICv2()

    def step() -> None:
        online_ABD = F.normalize(online, dim=-1)
        queue.push_(target, labels_B)
        votes = vote(online_ABD[: size.views].detach(), queue)
        positives = sample_positives(semantic_labels(labels_B, votes), queue, len(online), 3)
        online.grad = None
        objective(online_ABD, target, positives, negatives_BN).total.backward()

    step()
    with peak_memory(device) as peak:
        step()
    peak_mb = peak() if device.type == "cuda" else None
    call = recorded(step, device) if device.type == "cuda" else step
    return milliseconds(call, device, steps=settings.steps, rounds=settings.rounds), peak_mb


def growth(rows: list[dict[str, Any]], factor: str, what: str) -> float:
    """The exponent x of n^x between the last two points: 1 is linear."""
    points = [row for row in rows if row["factor"] == factor]
    before, last = points[max(len(points) - 2, 0)], points[-1]
    if before["value"] == last["value"]:
        return 0.0
    return log(last[what] / before[what]) / log(last["value"] / before["value"])
