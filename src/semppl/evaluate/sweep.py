"""The paper's linear transfer protocol: SGD over cached features, many settings at once.

Shapes: N images, B of them in a mini-batch, F features, G = F + 1 with a one for the bias, Y classes,
S settings, A of them not yet through, T steps.

Settings with the same batch size see the same mini-batches, so that their products with the features are one,
[S·Y, G] × [G, B]. Rate, decay and momentum are vectors over the settings. Logits are laid out with the images
last, because on a CPU a softmax over a short last axis is twenty times as slow.

What the paper leaves open, and what we take: the rate is used as written, whatever the batch; after a linear
warm-up it falls to 0 by half a cosine, as in the linear protocol on ImageNet; weight decay is added to the
gradient of the weights, as in torch, and biases have none; features are centred and divided by one number, as
in `fit_linear`. The paper starts from a random layer, we from zeros, so that settings differ by nothing else.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Final, NamedTuple

import torch
from torch import Tensor

from semppl.core.rng import generator
from semppl.evaluate.linear import layer_scores, standard

# bytes of parameters and logits of the settings that are trained together: a CPU has them in its cache
_BYTES_CPU: Final = 16 * 2**20
_BYTES_CUDA: Final = 4 * 2**30
# steps whose rates are computed together
_BLOCK: Final = 64

Advance = Callable[[int, int], None]
"""Hears the updates that are done, summed over settings, and how many there will be."""


@dataclass(frozen=True)
class SgdSetting:
    """One way to train the layer."""

    lr: float
    batch_size: int
    weight_decay: float
    warmup_epochs: int
    momentum: float
    nesterov: bool
    epochs: int

    def steps(self, epochs: int, num_images: int) -> int:
        """In so many epochs."""
        return math.ceil(epochs * num_images / min(self.batch_size, num_images))


PAPER_SWEEP: Final = tuple(
    SgdSetting(*values)
    for values in product(
        (0.001, 0.01, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 1.0, 2.0),
        (128, 256, 512, 1024, 2048),
        (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1),
        (0, 10),
        (0.9, 0.99),
        (True, False),
        (20, 30, 60, 80, 100),
    )
)


class Labelled(NamedTuple):
    """Features as the encoder gives them, and their labels."""

    features_NF: Tensor
    labels_N: Tensor


class Layers(NamedTuple):
    """logits = features · weightᵀ + bias for each setting; not finite where it diverged."""

    weight_SYF: Tensor
    bias_SY: Tensor


class Selection(NamedTuple):
    """The setting with the best score on validation, of equals the first, and all scores; −1 if diverged."""

    setting: SgdSetting
    scores_S: Tensor


def sgd_sweep(
    features_NF: Tensor,
    labels_N: Tensor,
    settings: Sequence[SgdSetting],
    *,
    classes: int,
    seed: int,
    device: torch.device | str = "cpu",
    memory: int | None = None,
    advance: Advance | None = None,
) -> Layers:
    """Train a layer with each setting; they come back on the CPU, in the order of the settings.

    At a time, about `memory` bytes of parameters and logits are on the device (by default 16 MB on a CPU,
    which stay in its cache, and 4 GB on a GPU), and all features. A layer depends on its setting and the
    seed, not on the other settings.
    """
    weight_SYF = torch.empty(len(settings), classes, features_NF.shape[1])
    bias_SY = torch.empty(len(settings), classes)
    train = Labelled(features_NF, labels_N)
    for index, layers in _trained(train, settings, classes, seed, torch.device(device), memory, advance):
        weight_SYF[index], bias_SY[index] = layers.weight_SYF.cpu(), layers.bias_SY.cpu()
    return Layers(weight_SYF, bias_SY)


def select(
    train: Labelled,
    validation: Labelled,
    settings: Sequence[SgdSetting],
    *,
    classes: int,
    seed: int,
    per_class: bool = False,
    device: torch.device | str = "cpu",
    memory: int | None = None,
    advance: Advance | None = None,
) -> Selection:
    """Train with each setting and score it on validation: accuracy, or the mean of those of the classes.

    A layer is thrown away once it is scored: 12,000 of them may not fit into memory.
    """
    device = torch.device(device)
    held = Labelled(validation.features_NF.to(device, torch.float32), validation.labels_N.to(device))
    scores_S = torch.empty(len(settings), dtype=torch.double)
    for index, layers in _trained(train, settings, classes, seed, device, memory, advance):
        scores_S[index] = layer_scores(*layers, *held, per_class=per_class).cpu()
    return Selection(settings[int(scores_S.argmax())], scores_S)


def tuned_sgd(
    train: Labelled,
    validation: Labelled,
    settings: Sequence[SgdSetting],
    *,
    classes: int,
    seed: int,
    per_class: bool = False,
    device: torch.device | str = "cpu",
    advance: Advance | None = None,
) -> tuple[Layers, Selection]:
    """Select on validation, then train with that setting alone (S = 1) on both parts, as the paper does."""
    selection = select(
        train,
        validation,
        settings,
        classes=classes,
        seed=seed,
        per_class=per_class,
        device=device,
        advance=advance,
    )
    features_NF, labels_N = (torch.cat(pair) for pair in zip(train, validation, strict=True))
    chosen = [selection.setting]
    return sgd_sweep(features_NF, labels_N, chosen, classes=classes, seed=seed, device=device), selection


def rates(settings: Sequence[SgdSetting], steps_T: Tensor, num_images: int) -> Tensor:
    """Learning rates [T, S]: up from 0 over the warm-up, then half a cosine to 0."""
    device = steps_T.device
    peak_S = _column(settings, "lr", device).T
    warmup_S = torch.tensor([s.steps(s.warmup_epochs, num_images) for s in settings], device=device)
    total_S = torch.tensor([s.steps(s.epochs, num_images) for s in settings], device=device)
    steps_T1 = steps_T[:, None]
    progress_TS = ((steps_T1 - warmup_S) / (total_S - warmup_S).clamp(min=1)).clamp(0, 1)
    falling_TS = 0.5 * (1 + torch.cos(math.pi * progress_TS))
    return peak_S * torch.where(steps_T1 < warmup_S, steps_T1 / warmup_S.clamp(min=1), falling_TS)


def batches(num_images: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Positions [B] from an endless stream of shuffled epochs; B is at most the number of images."""
    count = min(batch_size, num_images)
    stream, epoch = torch.empty(0, dtype=torch.long), 0
    while True:
        if len(stream) < count:
            rng = generator(seed, f"sweep/{batch_size}", epoch)
            stream, epoch = torch.cat([stream, torch.randperm(num_images, generator=rng)]), epoch + 1
        yield stream[:count]
        stream = stream[count:]


def _column(settings: Sequence[SgdSetting], name: str, device: torch.device) -> Tensor:
    """One number of each setting, [S, 1]."""
    return torch.tensor([[float(getattr(setting, name))] for setting in settings], device=device)


def _trained(
    train: Labelled,
    settings: Sequence[SgdSetting],
    classes: int,
    seed: int,
    device: torch.device,
    memory: int | None,
    advance: Advance | None,
) -> Iterator[tuple[list[int], Layers]]:
    """Positions of settings and their layers, a part of the settings at a time."""
    _check(train.labels_N, settings, classes)
    features_NF = train.features_NF.to(device, torch.float32)
    mean_F, scale = standard(features_NF)
    ones_N1 = features_NF.new_ones(len(features_NF), 1)
    ready = Labelled(torch.cat([(features_NF - mean_F) / scale, ones_N1], 1), train.labels_N.to(device))
    num_images, num_features = features_NF.shape
    memory = memory or (_BYTES_CUDA if device.type == "cuda" else _BYTES_CPU)
    total = sum(setting.steps(setting.epochs, num_images) for setting in settings)
    done = 0

    def report(updates: int) -> None:
        nonlocal done
        done += updates
        if advance is not None:
            advance(done, total)

    # the longest come first, so that those still at work are always the first A
    order = sorted(range(len(settings)), key=lambda i: (settings[i].batch_size, -settings[i].epochs))
    for batch_size, group in groupby(order, key=lambda i: settings[i].batch_size):
        members = [*group]
        together = max(memory // (4 * classes * (3 * num_features + 2 * min(batch_size, num_images))), 1)
        for start in range(0, len(members), together):
            index = members[start : start + together]
            layer_SYG = _train(ready, [settings[i] for i in index], classes, seed, report)
            weight_SYF = layer_SYG[:, :, :-1] / scale
            yield index, Layers(weight_SYF, layer_SYG[:, :, -1] - weight_SYF @ mean_F)


def _check(labels_N: Tensor, settings: Sequence[SgdSetting], classes: int) -> None:
    if not len(labels_N) or not 0 <= int(labels_N.min()) <= int(labels_N.max()) < classes:
        raise ValueError(f"SGD needs labels from 0 to {classes - 1}, but got {labels_N.unique().tolist()}")
    if not settings or min(min(setting.batch_size, setting.epochs) for setting in settings) < 1:
        raise ValueError("SGD needs a setting, and in each at least one epoch and one image for a batch")


@torch.no_grad()
def _train(
    ready: Labelled, settings: Sequence[SgdSetting], classes: int, seed: int, report: Callable[[int], None]
) -> Tensor:
    """Weights and, last, biases of settings with one batch size, in order of falling epochs."""
    (num_images, columns), device = ready.features_NF.shape, ready.features_NF.device
    batch_size = settings[0].batch_size
    layer_3SYG = torch.zeros(3, len(settings), classes, columns, device=device)
    buffers_2SYB = torch.empty(2, len(settings), classes, min(batch_size, num_images), device=device)
    classes_Y1 = torch.arange(classes, device=device)[:, None]
    decay_S11 = _column(settings, "weight_decay", device)[:, :, None]
    momentum_S1, nesterov_S1 = (_column(settings, name, device) for name in ("momentum", "nesterov"))
    stream = batches(num_images, batch_size, seed)
    for active, steps_T in _segments([setting.steps(setting.epochs, num_images) for setting in settings]):
        at_work = slice(active)
        rate_TA1 = rates(settings[at_work], steps_T.to(device), num_images)[:, :, None]
        momentum_A1, nesterov_A1 = momentum_S1[at_work], nesterov_S1[at_work]
        speeds_TA1 = -rate_TA1 * momentum_A1.where(nesterov_A1 > 0, 1)
        for speed_A1, slope_A1 in zip(speeds_TA1, -rate_TA1 * nesterov_A1, strict=True):
            index_B = next(stream).to(device)
            features_BG = ready.features_NF.index_select(0, index_B)
            target_YB = (ready.labels_N[index_B] == classes_Y1).float()
            _slopes_(layer_3SYG[:, at_work], features_BG, target_YB, buffers_2SYB[:, at_work])
            _descend_(layer_3SYG[:, at_work], decay_S11[at_work], momentum_A1, speed_A1, slope_A1)
        report(active * len(steps_T))
    return layer_3SYG[0]


def _segments(lengths: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    """How many settings are at work, and a block of steps in which they are; the lengths fall."""
    start = 0
    for active in range(len(lengths), 0, -1):
        if lengths[active - 1] > start:
            for steps_T in torch.arange(start, lengths[active - 1]).split(_BLOCK):
                yield active, steps_T
            start = lengths[active - 1]


def _slopes_(layer_3AYG: Tensor, features_BG: Tensor, target_YB: Tensor, buffers_2AYB: Tensor) -> None:
    """Gradients of the mean cross-entropy, into the last third of the layer."""
    value_RG, _, slope_RG = layer_3AYG.flatten(1, 2)
    logits_AYB, error_AYB = buffers_2AYB
    torch.mm(value_RG, features_BG.T, out=logits_AYB.flatten(0, 1))
    torch.softmax(logits_AYB, 1, out=error_AYB).sub_(target_YB)
    share = 1 / len(features_BG)
    torch.addmm(slope_RG, error_AYB.flatten(0, 1), features_BG, beta=0, alpha=share, out=slope_RG)


def _descend_(
    layer_3AYG: Tensor, decay_A11: Tensor, momentum_A1: Tensor, by_speed_A1: Tensor, by_slope_A1: Tensor
) -> None:
    """A step of torch's SGD: of values, speeds and slopes, the first two change."""
    layer_3AYG[2, :, :, :-1].addcmul_(layer_3AYG[0, :, :, :-1], decay_A11)
    value_AD, speed_AD, slope_AD = layer_3AYG.flatten(2)
    torch.addcmul(slope_AD, speed_AD, momentum_A1, out=speed_AD)
    value_AD.addcmul_(speed_AD, by_speed_A1).addcmul_(slope_AD, by_slope_A1)
