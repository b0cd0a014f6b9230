"""Beside lightly, where it is installed: its transforms, and SimCLR and BYOL steps made of its parts.

As its own examples are written: images transformed one by one in worker processes, a plain loop, two views.
Its step gets the same encoder, the same batch and the same precision as ours.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from semppl.bench.settings import BenchSettings
from semppl.bench.stopwatch import milliseconds
from semppl.bench.workload import Workload, resident
from semppl.config import required
from semppl.core.errors import UserError
from semppl.nets.encoder import create_encoder

METHODS = ("simclr", "byol")


def require_lightly() -> None:
    """Before anything is measured."""
    if find_spec("lightly") is None:
        raise UserError("--compare lightly: it is not installed here (pip install lightly)")


def time_lightly(workload: Workload, settings: BenchSettings) -> dict[str, Any]:
    """Of each method the step on ready views, the transforms, and both together."""
    version = getattr(import_module("lightly"), "__version__", "?")
    times = {method: _time_method(method, workload, settings) for method in METHODS}
    return {"version": version, "workers": settings.workers, **times}


def _time_method(method: str, workload: Workload, settings: BenchSettings) -> dict[str, float]:
    device, step = workload.device, _step(method, workload, settings)
    view = torch.randn(settings.batch_size, 3, settings.image_size, settings.image_size, device=device)
    step_ms = milliseconds(lambda: step(view, view), device, steps=settings.steps, rounds=settings.rounds)
    images = resident(workload).images[: 4 * settings.batch_size].cpu()
    batches = _batches(_Transformed(images, _transform(method, settings.image_size)), settings)

    def both() -> None:
        one, other = next(batches)
        step(one.to(device, non_blocking=True), other.to(device, non_blocking=True))

    # a worker makes whole batches: pass over those that were made ahead, and time several of each worker
    ahead, many = 2 * settings.workers + 1, 4 * max(settings.workers, 1)
    feed_ms = milliseconds(lambda: next(batches), device, steps=many, rounds=1, warm_up=ahead)
    both_ms = milliseconds(both, device, steps=many, rounds=1, warm_up=ahead)
    return {
        "step_ms": step_ms,
        "transform_images_per_second": 1e3 * settings.batch_size / feed_ms,
        "images_per_second": 1e3 * settings.batch_size / both_ms,
    }


class _Transformed(Dataset[list[Tensor]]):
    def __init__(self, images_M3HW: Tensor, transform: Callable[[Image.Image], list[Tensor]]) -> None:
        self._images, self._transform = images_M3HW.permute(0, 2, 3, 1).contiguous().numpy(), transform

    def __len__(self) -> int:
        # an epoch without end: a loader that starts again and again would be timed instead
        return 1000 * len(self._images)

    def __getitem__(self, index: int) -> list[Tensor]:
        return self._transform(Image.fromarray(self._images[index % len(self._images)]))


def _batches(dataset: _Transformed, settings: BenchSettings) -> Iterator[list[Tensor]]:
    loader = DataLoader(
        dataset,
        batch_size=settings.batch_size,
        drop_last=True,
        num_workers=settings.workers,
        pin_memory=torch.cuda.is_available(),
    )
    while True:
        yield from loader


def _transform(method: str, size: int) -> Callable[[Image.Image], list[Tensor]]:
    """Its own multi-view transform; without blur on thumbnails, as in its CIFAR benchmark."""
    transforms = import_module("lightly.transforms")
    blur = {"gaussian_blur": 0.0} if size <= 64 else {}
    if method == "simclr":
        return transforms.SimCLRTransform(input_size=size, **blur)
    byol = import_module("lightly.transforms.byol_transform")
    return transforms.BYOLTransform(
        byol.BYOLView1Transform(input_size=size, **blur), byol.BYOLView2Transform(input_size=size, **blur)
    )


def _step(method: str, workload: Workload, settings: BenchSettings) -> Callable[[Tensor, Tensor], None]:
    loss, modules = import_module("lightly.loss"), import_module("lightly.models.modules")
    device, plan, net = workload.device, workload.training.plan, workload.config.net
    encoder = create_encoder(settings.encoder, width=settings.width, stem=required(net.stem))
    features = encoder.num_features
    if method == "simclr":
        online = nn.Sequential(encoder, modules.SimCLRProjectionHead(features, 2048, 128)).to(device)
        criterion = loss.NTXentLoss()
        optimizer = torch.optim.SGD(online.parameters(), lr=1e-4, momentum=0.9)

        def simclr(one: Tensor, other: Tensor) -> None:
            with plan.autocast():
                value = criterion(online(one), online(other))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

        return simclr

    update_momentum = import_module("lightly.models.utils").update_momentum
    online = nn.Sequential(encoder, modules.BYOLProjectionHead(features)).to(device)
    target = deepcopy(online).requires_grad_(False)
    predictor = modules.BYOLPredictionHead(256, 4096, 256).to(device)
    similarity = loss.NegativeCosineSimilarity()
    optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=1e-4, momentum=0.9)

    def byol(one: Tensor, other: Tensor) -> None:
        update_momentum(online, target, m=0.99)
        with plan.autocast():
            first, second = predictor(online(one)), predictor(online(other))
            with torch.no_grad():
                first_key, second_key = target(one), target(other)
            value = 0.5 * (similarity(first, second_key) + similarity(second, first_key))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return byol
