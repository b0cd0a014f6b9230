"""What a configuration leaves open, chosen from the data; and what cannot work, refused."""

from dataclasses import replace
from typing import TypeVar

from semppl.config import Config, MethodConfig, OptimConfig
from semppl.core.errors import UserError

T = TypeVar("T")


def resolved(config: Config, *, image_size: int, num_images: int) -> Config:
    """The configuration with every choice made; what cannot work is refused here, before anything runs."""
    batch_size = config.batch_size
    if batch_size is None:
        batch_size = 2 ** max(min(num_images // 8, 512).bit_length() - 1, 1)
    config = replace(config, batch_size=batch_size)
    _check(config, batch_size, num_images)
    steps = config.total_steps(num_images)
    long = steps >= 20_000
    views, net, method = config.views, config.net, config.method
    large = views.large_size or min(image_size, 224)
    tiny = large <= 64
    return replace(
        config,
        data=replace(config.data, split_seed=config.split_seed),
        views=replace(
            views,
            large_size=large,
            small_size=views.small_size or (96 if large == 224 else max(large // 2, 1)),
            recipe=views.recipe or ("small_images" if tiny else "paper"),
        ),
        net=replace(
            net,
            encoder=net.encoder or ("resnet18" if tiny else "resnet50"),
            stem=net.stem or ("small" if tiny else "imagenet"),
            last_scale=_first(net.last_scale, 1.0 if steps < 5000 else 0.0),
        ),
        method=replace(
            method,
            queue_capacity=method.queue_capacity or 20 * batch_size,
            negatives=_negatives(method, batch_size),
            contrast_scale=_first(method.contrast_scale, 0.3 if long else 1.0),
            invariance_scale=_first(method.invariance_scale, 5.0 if long else 1.0),
            same_view=_first(method.same_view, method.objective == "relicv2"),
            target_decay=_first(method.target_decay, 1.0 - min(max(0.004 * 20_000 / steps, 0.004), 0.03)),
        ),
        optim=_optim(config.optim, batch_size, config.epochs),
    )


def _optim(optim: OptimConfig, batch_size: int, epochs: float) -> OptimConfig:
    name = optim.name or ("lars" if batch_size >= 1024 else "adamw")
    return replace(
        optim,
        name=name,
        base_lr=_first(optim.base_lr, {"lars": 0.3, "sgd": 0.3, "adamw": 0.001}[name]),
        weight_decay=_first(optim.weight_decay, 1e-6 if name == "lars" else 1e-4),
        warmup_epochs=_first(optim.warmup_epochs, min(10.0, epochs / 10)),
    )


def _negatives(method: MethodConfig, batch_size: int) -> int:
    if method.objective == "byol":
        return 0
    if method.negatives is not None:
        return min(method.negatives, batch_size - 1)
    return batch_size - 1 if method.objective == "simclr" else min(10, batch_size - 1)


def _first(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _check(config: Config, batch_size: int, num_images: int) -> None:
    method, views = config.method, config.views
    fraction, decay, lr = config.data.labelled_fraction, method.target_decay, config.optim.base_lr
    checks = [
        (batch_size >= 2, f"batch size {batch_size}: at least 2 images are needed for negatives"),
        (
            batch_size <= num_images,
            f"batch size {batch_size} is larger than the data ({num_images} images): "
            f"use --batch-size {num_images} or less",
        ),
        (config.epochs > 0, f"epochs must be positive, not {config.epochs}"),
        (config.log_every > 0, f"log_every must be at least 1, not {config.log_every}"),
        (views.large >= 1, f"at least one large view is needed, not {views.large}"),
        (views.small >= 0, f"the number of small views cannot be {views.small}"),
        (
            views.large + views.small >= 2 or method.objective == "relicv2",
            f"{method.objective} compares different views: use at least 2",
        ),
        (method.k >= 1, f"k must be at least 1, not {method.k}"),
        (method.positives >= 0, f"the number of positives cannot be {method.positives}"),
        (method.alpha >= 0, f"alpha cannot be {method.alpha}"),
        (method.temperature > 0, f"temperature must be positive, not {method.temperature}"),
        (decay is None or 0 <= decay <= 1, f"target decay must lie in [0, 1], not {decay}"),
        (lr is None or lr > 0, f"the learning rate must be positive, not {lr}"),
        (fraction is None or 0 < fraction < 1, f"labelled fraction must lie between 0 and 1, not {fraction}"),
        (
            method.labels != "oracle" or config.data.labels_per_class is not None,
            "oracle labels need --data.labels-per-class: the withheld labels are the oracle",
        ),
    ]
    for fine, message in checks:
        if not fine:
            raise UserError(message)
