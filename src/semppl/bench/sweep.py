"""The paper's sweep of linear classifiers on cached features: how long a part of it takes."""

import time
from typing import Any

import torch

from semppl.bench.stopwatch import synchronise
from semppl.evaluate.sweep import PAPER_SWEEP, Labelled, select


def time_sweep(
    device: torch.device,
    *,
    settings: int = 1000,
    images: int = 5000,
    features: int = 512,
    classes: int = 10,
    seed: int = 0,
) -> dict[str, Any]:
    """Seconds for settings spread evenly over the paper's 12,000, chosen among on a fifth more images.

    Features are noise around a centre for each class, so that some settings are better than others.
    """
    rng = torch.Generator().manual_seed(seed)
    centres_YF = torch.randn(classes, features, generator=rng)

    def drawn(count: int) -> Labelled:
        labels_N = torch.randint(classes, (count,), generator=rng)
        return Labelled(
            centres_YF[labels_N] + 8 * torch.randn(count, features, generator=rng),
            labels_N,
        )

    train, validation = drawn(images), drawn(max(images // 5, 1))
    chosen = [PAPER_SWEEP[i * len(PAPER_SWEEP) // settings] for i in range(settings)]
    synchronise(device)
    start = time.perf_counter()
    found = select(train, validation, chosen, classes=classes, seed=seed, device=device)
    seconds = time.perf_counter() - start
    updates = sum(setting.steps(setting.epochs, images) for setting in chosen)
    return {
        "settings": settings,
        "images": images,
        "features": features,
        "classes": classes,
        "threads": torch.get_num_threads(),
        "updates": updates,
        "seconds": seconds,
        "best_accuracy": 100 * float(found.scores_S.max()),
        "median_accuracy": 100 * float(found.scores_S.median()),
    }
