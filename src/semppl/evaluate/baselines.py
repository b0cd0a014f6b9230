"""What the same labels give without pre-training. Shapes: L labelled images, B images of a batch, s side.

Two ways: AdamW for as many steps as somebody has time for, beside which `fit` and the demo stand; and SGD for
as long as it helps, the row "supervised only" of published tables.
"""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from semppl.core.rng import generator, stream
from semppl.data.order import stream_indices
from semppl.evaluate.descent import PLAIN, Examples, Means, decaying_sgd, descend_
from semppl.nets.initialise import create_linear
from semppl.optim.schedule import warmup_cosine
from semppl.views.geometry import cut_views
from semppl.views.photometric import finish
from semppl.views.recipe import View

BATCH: Final = 128

# of SGD, as small images are commonly trained from scratch; nothing of it was searched here
EPOCHS: Final = 200
RATE: Final = 0.1
"""For a batch of 128."""
WEIGHT_DECAY: Final = 5e-4
# 40 labels are one batch: 200 epochs of them would be 200 steps
_FEWEST_STEPS: Final = 3000
_WARMUP: Final = 0.05


def train_supervised_(
    encoder: nn.Module,
    images_L3HW: Tensor,
    labels_L: Tensor,
    *,
    num_features: int,
    classes: int,
    view: View,
    mean_3: Tensor,
    std_3: Tensor,
    steps: int,
    seed: int,
    lr: float = 2e-3,
    advance: Callable[[int], None] | None = None,
) -> nn.Linear:
    """Train an encoder and a classifier on the labels alone, with the same views; gives the classifier."""
    device = mean_3.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "supervised"))
        classifier = nn.Linear(num_features, classes).to(device)
    images_L3HW, labels_L = images_L3HW.to(device), labels_L.to(device)
    optimizer = AdamW([*encoder.parameters(), *classifier.parameters()], lr=lr, weight_decay=1e-4)
    count = max(min(BATCH, len(labels_L)), 2)  # batch norm needs two

    def examples(step: int) -> tuple[Tensor, Tensor]:
        index_B = stream_indices(step, count, len(labels_L), seed, "supervised").to(device)
        rng = generator(seed, "supervised", step, device)
        (crops,) = cut_views(images_L3HW[index_B], [view], 1, rng)
        return finish(crops, view, mean_3, std_3, rng), labels_L[index_B]

    def rate(step: int) -> list[float]:
        return [warmup_cosine(step, peak=lr, warmup=steps // 10, total=steps)]

    encoder.train()
    descend_(nn.Sequential(encoder, classifier), examples, optimizer, rate, steps, advance=advance)
    return classifier


def supervised_epochs(num_labels: int, batch_size: int) -> int:
    """200, or as many as 3,000 steps need."""
    return max(EPOCHS, math.ceil(_FEWEST_STEPS * batch_size / num_labels))


def train_by_sgd(
    encoder: nn.Module,
    examples: Examples,
    *,
    num_features: int,
    classes: int,
    batch_size: int,
    steps: int,
    seed: int,
    device: torch.device,
    means: Means = PLAIN,
    advance: Callable[[int], None] | None = None,
) -> nn.Sequential:
    """Train the given encoder under a new classifier; both come back as one network in evaluation mode.

    Nesterov momentum 0.9, rate 0.1 · batch/128 after a warm-up of 5 % of the steps, down to 0 by a cosine.
    """
    classifier = create_linear(num_features, classes, generator(seed, "supervised/classifier"))
    model = nn.Sequential(encoder, classifier.to(device)).requires_grad_().train()
    peak = RATE * batch_size / BATCH

    def rate(step: int) -> list[float]:
        return 2 * [warmup_cosine(step, peak=peak, warmup=round(_WARMUP * steps), total=steps)]

    optimizer = decaying_sgd(model, lr=peak, weight_decay=WEIGHT_DECAY)
    descend_(model, examples, optimizer, rate, steps, means=means, advance=advance)
    return model.eval()
