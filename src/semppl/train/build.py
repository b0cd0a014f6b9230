"""From a configuration to the objects of a run: no class below knows of Config."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from semppl.config import Config, ViewsConfig, required
from semppl.core.batch import Batch
from semppl.core.errors import UserError
from semppl.core.rng import stream
from semppl.core.share import Rows
from semppl.data.dataset import Dataset
from semppl.method.queue import LabelledQueue
from semppl.method.target import Target
from semppl.nets.encoder import create_encoder
from semppl.nets.heads import Projected, create_head
from semppl.nets.pretrained import normalisation_of
from semppl.optim.groups import decay_groups
from semppl.optim.lars import LARS
from semppl.optim.schedule import target_decay, warmup_cosine
from semppl.train.capture import CapturedStep
from semppl.train.device import memory_layout
from semppl.train.encode import Nets, encode, through
from semppl.train.feed import Feed, build_feed, saliency_of
from semppl.train.objectives import build_objective, uses_queue
from semppl.train.parallel import spread_
from semppl.train.ranks import ALONE, Ranks
from semppl.train.state import TrainState
from semppl.train.step import Mark, Outcome, Plan, ignore, train_step_
from semppl.views.geometry import crop_resize, cut_views
from semppl.views.photometric import Augment, augment_at_once
from semppl.views.recipe import View, paper_recipe, small_image_recipe

F = TypeVar("F", bound=Callable[..., Any])
Speed = Literal["eager", "graph", "compile"]
COMPILE_FROM_STEPS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything that the loop needs."""

    feed: Feed
    plan: Plan
    state: TrainState
    step: Callable[[Batch], Outcome]
    """Plain or recorded; changes the state."""
    speed: Speed
    total_steps: int
    device: torch.device
    ranks: Ranks = ALONE


def build_training(config: Config, dataset: Dataset, device: torch.device, ranks: Ranks = ALONE) -> Training:
    """A run at step 0. `config` must be resolved; a value that a part refuses is the user's."""
    if config.images_per_step < ranks.world:
        raise UserError(f"--batch-size {config.batch_size} is too small to be shared by {ranks.world} ranks")
    _require_equal_parts(config, ranks)
    try:
        return _build(config, dataset, device, ranks)
    except ValueError as error:
        raise UserError(str(error)) from error


def _require_equal_parts(config: Config, ranks: Ranks) -> None:
    """Ranks share the statistics of each part, so all must have as many of them, and as large."""
    batch, micro = config.images_per_step, config.micro_batch
    if ranks.world == 1 or micro is None or micro >= -(-batch // ranks.world):
        return
    if batch % ranks.world or (batch // ranks.world) % micro:
        raise UserError(
            f"--micro-batch {micro} does not divide the shares of {ranks.world} ranks in a batch of {batch} "
            "images into equal parts"
        )


def _build(config: Config, dataset: Dataset, device: torch.device, ranks: Ranks) -> Training:
    num_images = len(dataset.labels_M)
    total_steps = config.total_steps(num_images)
    views = build_views(config.views)
    saliency = saliency_of(config)
    speed = choose_speed(config, total_steps, device, ranks)
    resize = compiled(crop_resize, speed)

    def cut(images: Tensor, masks: Tensor | None, rng: torch.Generator, rows: Rows) -> tuple[Tensor, ...]:
        return cut_views(images, views, config.views.large, rng, masks, saliency, resize, rows)

    feed = build_feed(config, dataset, cut, views, device, ranks.share)
    state = build_state(config, len(dataset.classes), device)
    spread_(state, ranks, config.net.norm_ranks)
    plan = replace(_plan(config, dataset, views, total_steps, speed, device), ranks=ranks)
    return Training(
        feed=feed,
        plan=plan,
        state=state,
        step=build_step(state, plan, speed),
        speed=speed,
        total_steps=total_steps,
        device=device,
        ranks=ranks,
    )


def build_step(
    state: TrainState, plan: Plan, speed: Speed, mark: Mark = ignore
) -> Callable[[Batch], Outcome]:
    """Plain, or recorded; not recorded where ranks wait for each other in the middle of it."""
    if speed == "eager" or plan.ranks.group is not None:
        return partial(train_step_, state, plan=plan, mark=mark)
    return CapturedStep(state, plan, mark=mark)


def choose_speed(config: Config, total_steps: int, device: torch.device, ranks: Ranks = ALONE) -> Speed:
    """What "auto" means: see docs/performance.md for the measurement behind the number."""
    if device.type != "cuda":
        return "eager"
    uncompiled: Speed = "graph" if ranks.group is None else "eager"
    if config.speed == "auto":
        return "compile" if total_steps >= COMPILE_FROM_STEPS and config.micro_batch is None else uncompiled
    return uncompiled if config.speed == "graph" else config.speed


def compiled(function: F, speed: Speed) -> F:
    """Where the speed is that."""
    return cast(F, torch.compile(function, dynamic=False)) if speed == "compile" else function


def build_views(config: ViewsConfig) -> list[View]:
    """The recipe with the configured exceptions."""
    recipe = paper_recipe if config.recipe == "paper" else small_image_recipe
    views = recipe(config.large, config.small, required(config.large_size), required(config.small_size))
    changed = []
    for i, view in enumerate(views):
        new = replace(view, flip=config.flip, crop=config.crop_probability, blur_taps=config.blur_taps)
        if config.min_area is not None and i < config.large:
            new = replace(new, min_area=config.min_area)
        if not config.colour:
            new = replace(new, saturation=0.0, hue=0.0, grey=0.0)
        if not config.solarise:
            new = replace(new, solarise=0.0)
        changed.append(new)
    return changed


def build_networks(config: Config, device: torch.device) -> tuple[Projected, nn.Module]:
    """g∘f and the predictor, with weights drawn from the seed."""
    net = config.net
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(config.seed, "weights"))
        encoder = create_encoder(
            required(net.encoder),
            width=required(net.width),
            sk=net.sk,
            stem=required(net.stem),
            padding=net.padding or "symmetric",
            last_scale=required(net.last_scale),
            pretrained=net.pretrained,
        )
        hidden, outputs = required(net.head_hidden), required(net.head_outputs)
        online = Projected(encoder, create_head(encoder.num_features, hidden, outputs))
        alone = config.method.objective == "simclr"
        predictor = nn.Identity() if alone else create_head(outputs, hidden, outputs)
    return online.to(device).to(memory_format=memory_layout(device)), predictor.to(device)


def build_state(config: Config, num_classes: int, device: torch.device) -> TrainState:
    """Networks, target, queue and optimiser."""
    net, method = config.net, config.method
    online, predictor = build_networks(config, device)
    queue = None
    if uses_queue(method):
        queue = LabelledQueue(
            views=config.views.large,
            capacity=required(method.queue_capacity),
            dim=required(net.head_outputs),
            classes=num_classes,
            initial_labels=method.queue_initial_labels,
            keep_predictions=method.semantic_partner == "store",
            seed=stream(config.seed, "queue"),
            device=device,
        )
    optimizer = _optimizer(config, nn.ModuleList([online, predictor]), device)
    target = None if method.objective == "simclr" else Target(online)
    return TrainState(online, predictor, target, queue, optimizer)


def _plan(
    config: Config,
    dataset: Dataset,
    views: list[View],
    total_steps: int,
    speed: Speed,
    device: torch.device,
) -> Plan:
    method, optim = config.method, config.optim
    mean_3, std_3 = normalisation(config, dataset)
    all_others = method.objective == "simclr" and method.negatives == config.images_per_step - 1
    warmup = round(required(optim.warmup_epochs) * len(dataset.labels_M) / config.images_per_step)
    low = uses_bf16(config, device)
    augment: Augment | None = None
    if device.type == "cuda":
        augment = partial(compiled(augment_at_once, speed), dtype=torch.bfloat16 if low else torch.float32)
    return Plan(
        views=views,
        num_large=config.views.large,
        mean_3=mean_3.to(device),
        std_3=std_3.to(device),
        augment=augment,
        objective=compiled(build_objective(method), speed),
        nets=Nets(compiled(encode, speed), compiled(through, speed)),
        micro_batch=config.micro_batch,
        num_positives=method.positives,
        mirrored=method.semantic_partner == "lockstep",
        num_negatives=None if all_others else method.negatives,
        labels=method.labels,
        minimum_votes=required(method.minimum_votes),
        vote_power=method.vote_power if method.labels == "pseudo" else 0.0,
        k=method.k,
        pairs=method.voting,
        tie=method.tie,
        enqueue_first=method.enqueue == "before",
        small_target=method.small_partner == "run_target" and method.objective == "relicv2",
        lr=partial(warmup_cosine, peak=config.peak_lr, warmup=warmup, total=total_steps),
        decay=partial(
            target_decay,
            base=required(method.target_decay),
            total=total_steps,
            schedule=method.target_schedule,
        ),
        constant_decay=method.target_decay if method.target_schedule == "constant" else None,
        autocast=lambda: torch.autocast(device.type, torch.bfloat16, enabled=low),
        seed=config.seed,
    )


def normalisation(config: Config, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the data, or those that weights from elsewhere expect."""
    if config.net.mean is not None and config.net.std is not None:
        return torch.tensor(config.net.mean), torch.tensor(config.net.std)
    if not config.net.pretrained:
        return dataset.statistics()
    mean, std = normalisation_of(required(config.net.encoder))
    return torch.tensor(mean), torch.tensor(std)


def uses_bf16(config: Config, device: torch.device) -> bool:
    """bf16 where asked for, or by default on a GPU."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def _optimizer(config: Config, module: nn.Module, device: torch.device) -> Optimizer:
    optim = config.optim
    decay, momentum, lr = required(optim.weight_decay), optim.momentum, config.peak_lr
    if optim.name == "lars":
        return LARS(module.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    groups = decay_groups(module, decay)
    # fused ones read a rate that is a tensor without asking for it; on a CPU that of SGD is the slower one
    on_gpu = device.type == "cuda"
    if optim.name == "sgd":
        return SGD(groups, lr=lr, momentum=momentum, fused=on_gpu or None)
    return AdamW(groups, lr=lr, betas=(momentum, 0.999), fused=True, capturable=on_gpu)
