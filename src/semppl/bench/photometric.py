"""The photometric stage on a CPU beside torchvision's transforms applied image by image."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torchvision.transforms import v2

from semppl.bench.stopwatch import milliseconds
from semppl.views.photometric import finish
from semppl.views.recipe import View, paper_recipe


def time_photometric(batch_size: int = 256, size: int = 96, rounds: int = 5) -> dict[str, Any]:
    """Milliseconds for a batch of each kind of view."""
    crops = torch.randint(256, (batch_size, 3, size, size), dtype=torch.uint8)
    mean_3, std_3 = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    odd, even = paper_recipe(2, 0, size, size)

    def compared(view: View) -> dict[str, float]:
        rng, one_by_one = torch.Generator().manual_seed(0), torchvision_transform(view, mean_3, std_3)
        once = partial(milliseconds, device=torch.device("cpu"), steps=1, rounds=rounds, warm_up=1)
        ours = once(lambda: finish(crops, view, mean_3, std_3, rng))
        theirs = once(lambda: torch.stack([one_by_one(crop) for crop in crops]))
        return {"ours_ms": ours, "torchvision_ms": theirs, "times_faster": theirs / ours}

    return {
        "batch": batch_size,
        "size": size,
        "threads": torch.get_num_threads(),
        "odd": compared(odd),
        "even": compared(even),
    }


def torchvision_transform(view: View, mean_3: Tensor, std_3: Tensor) -> Callable[[Tensor], Tensor]:
    """The nearest that torchvision has: its brightness multiplies, its contrast is one for all channels."""
    jitter = v2.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue)
    return v2.Compose(
        [
            v2.RandomApply([jitter], p=view.jitter),
            v2.RandomGrayscale(p=view.grey),
            v2.RandomApply([v2.GaussianBlur(view.taps, (0.1, 2.0))], p=view.blur),
            v2.RandomSolarize(128, p=view.solarise),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean_3.tolist(), std_3.tolist()),
        ]
    )
