"""What a configuration leaves open, chosen from the data; and what cannot work, refused."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from semppl.config import Config, MethodConfig, NetConfig, OptimConfig, required
from semppl.core.counted import counted
from semppl.core.errors import UserError

T = TypeVar("T")

POSITIVE = sys.float_info.min
BELOW_ONE = math.nextafter(1.0, 0.0)


def _any_size(size: int) -> int:
    return size


def resolved(
    config: Config,
    *,
    image_size: int,
    num_images: int,
    num_classes: int = 1,
    fitting: Callable[[int], int] = _any_size,
) -> Config:
    """The configuration with every choice made; what cannot work is refused here, before anything runs.

    `fitting` says which side of a view the encoder takes that is nearest to one wanted.
    """
    if num_images < 2:
        raise UserError(f"the data has {counted(num_images, 'image')}: at least 2 are needed")
    batch_size = _first(config.batch_size, 2 ** max(min(num_images // 8, 512).bit_length() - 1, 1))
    capacity = _first(config.method.queue_capacity, max(20 * batch_size, 64 * num_classes))
    config = replace(config, batch_size=batch_size, method=replace(config.method, queue_capacity=capacity))
    _check(config, batch_size, num_images)
    steps = config.total_steps(num_images)
    long = steps >= 20_000
    views, net, method = config.views, config.net, config.method
    large = _first(views.large_size, fitting(min(image_size, 224)))
    tiny = large <= 64
    return replace(
        config,
        log_every=_first(config.log_every, max(10, -(-steps // 500))),
        data=replace(
            config.data,
            split_seed=config.split_seed,
            validation=_first(config.data.validation, 0.0),
            masks=_first(config.data.masks, "none"),
            balance_labels=_first(config.data.balance_labels, False),
        ),
        views=replace(
            views,
            large_size=large,
            small_size=_first(views.small_size, fitting(96 if large == 224 else max(large // 2, 1))),
            recipe=views.recipe or ("small_images" if tiny else "paper"),
        ),
        net=replace(
            net,
            encoder=net.encoder or ("resnet18" if tiny else "resnet50"),
            width=_first(net.width, 1.0),
            head_hidden=_first(net.head_hidden, 4096),
            head_outputs=_first(net.head_outputs, 256),
            stem=net.stem or ("small" if tiny else "imagenet"),
            padding=net.padding or "symmetric",
            last_scale=_first(net.last_scale, 1.0 if steps < 5000 else 0.0),
        ),
        method=replace(
            method,
            minimum_votes=_first(method.minimum_votes, 0),
            negatives=_first(method.negatives, _default_negatives(method, batch_size)),
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
        base_lr=_first(optim.base_lr, 0.001 if name == "adamw" else 0.3),
        weight_decay=_first(optim.weight_decay, 1e-6 if name == "lars" else 1e-4),
        warmup_epochs=_first(optim.warmup_epochs, min(10.0, epochs / 10)),
    )


def _default_negatives(method: MethodConfig, batch_size: int) -> int:
    return {"relicv2": min(10, batch_size - 1), "simclr": batch_size - 1, "byol": 0}[method.objective]


def _first(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _check(config: Config, batch_size: int, num_images: int) -> None:
    """Refuse values outside their range."""
    method, views, optim = config.method, config.views, config.optim
    most = batch_size - 1 if method.objective != "byol" else 0
    ranges = [
        ("--batch-size", batch_size, 2, None),
        ("--epochs", config.epochs, POSITIVE, None),
        ("--micro-batch", config.micro_batch, 2, batch_size),
        ("--log-every", config.log_every, 1, None),
        ("--timeout", config.timeout, POSITIVE, None),
        ("--probe-every", config.probe_every, 0, None),
        ("--checkpoint-every", config.checkpoint_every, 0, None),
        ("--sheet-every", config.sheet_every, 0, None),
        ("--keep-checkpoints", config.keep_checkpoints, 1, None),
        ("--labels-per-class", config.data.labels_per_class, 1, None),
        ("--label-fraction", config.data.label_fraction, POSITIVE, 1),
        ("--validation", config.data.validation, 0, 0.9),
        ("--workers", config.data.workers, 0, None),
        ("--data.labelled-fraction", config.data.labelled_fraction, POSITIVE, 1),
        ("--views.large", views.large, 1, None),
        ("--views.small", views.small, 0, None),
        ("--views.large-size", views.large_size, 1, None),
        ("--views.small-size", views.small_size, 1, None),
        ("--saliency.probability", config.saliency.probability, 0, 1),
        ("--saliency.min-foreground", config.saliency.min_foreground, 0, 1),
        ("--net.head-hidden", config.net.head_hidden, 1, None),
        ("--net.head-outputs", config.net.head_outputs, 1, None),
        ("--net.norm-ranks", config.net.norm_ranks, 1, None),
        ("--method.positives", method.positives, 0, None),
        ("--method.k", method.k, 1, None),
        ("--method.alpha", method.alpha, 0, None),
        ("--method.temperature", method.temperature, POSITIVE, None),
        ("--method.queue-capacity", method.queue_capacity, 1, None),
        ("--method.negatives", method.negatives, 0, most),
        ("--method.minimum-votes", method.minimum_votes, 0, config.num_ballots),
        ("--method.vote-power", method.vote_power, 0, None),
        ("--method.contrast-scale", method.contrast_scale, 0, None),
        ("--method.invariance-scale", method.invariance_scale, 0, None),
        ("--method.target-decay", method.target_decay, 0, 1),
        ("--optim.base-lr", optim.base_lr, POSITIVE, None),
        ("--optim.momentum", optim.momentum, 0, BELOW_ONE),
        ("--optim.weight-decay", optim.weight_decay, 0, None),
        ("--optim.warmup-epochs", optim.warmup_epochs, 0, None),
    ]
    if batch_size > num_images:
        raise UserError(
            f"batch size {batch_size} is larger than the data ({num_images} images): "
            f"use --batch-size {num_images} or less"
        )
    for flag, value, low, high in ranges:
        if value is not None and (value < low or (high is not None and value > high)):
            _refuse(flag, value, low, high)
    _check_pairs(config, batch_size)


def _check_pairs(config: Config, batch_size: int) -> None:
    """Values that contradict each other."""
    method, views, net = config.method, config.views, config.net
    if config.micro_batch is not None and config.speed == "compile":
        raise UserError("--micro-batch computes parts again, which is not compiled: use --speed graph")
    if config.micro_batch is not None and batch_size % config.micro_batch:
        raise UserError(
            f"--micro-batch {config.micro_batch} does not divide the batch of {batch_size} images: "
            "batch norm needs parts of equal size"
        )
    if views.large + views.small < 2 and method.objective != "relicv2":
        raise UserError(f"{method.objective} compares different views: use at least 2")
    given = config.data.labels_per_class is None and config.data.label_fraction is None
    if method.labels == "oracle" and given:
        raise UserError("oracle labels need --labels-per-class: the withheld labels are the oracle")
    capacity = required(method.queue_capacity)
    if method.positives and 1 < method.k >= capacity:
        raise UserError(
            f"--method.k is {method.k}, and the queue has {counted(capacity, 'entry', 'entries')}: all would "
            "vote, for all images alike; use a smaller --method.k or a larger --method.queue-capacity"
        )
    _check_normalisation(net)
    if net.pretrained and not (net.encoder or "").startswith("timm:"):
        raise UserError("--pretrained takes the weights of timm: name a model with --encoder timm:NAME")


def _check_normalisation(net: NetConfig) -> None:
    if (net.mean is None) != (net.std is None):
        raise UserError("--net.mean and --net.std belong together: give both, or neither")
    for flag, values in (("--net.mean", net.mean), ("--net.std", net.std)):
        if values is not None and len(values) != 3:
            raise UserError(f"{flag} has {counted(len(values), 'number')}: there are 3 channels")
    if net.std is not None and min(net.std) <= 0:
        raise UserError(f"--net.std is {' '.join(f'{x:g}' for x in net.std)}: each must be above 0")


def _refuse(flag: str, value: float, low: float, high: float | None) -> None:
    least = "above 0" if low == POSITIVE else f"at least {low:g}"
    most = "" if high is None else " and below 1" if high == BELOW_ONE else f" and at most {high:g}"
    raise UserError(f"{flag} is {value}: it must be {least}{most} here")
