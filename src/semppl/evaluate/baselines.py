"""What the same labels give without pre-training. Shapes: L labelled images, T test images."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from semppl.core.rng import generator, stream
from semppl.data.order import stream_indices
from semppl.optim.schedule import warmup_cosine
from semppl.views.geometry import cut_views
from semppl.views.photometric import finish
from semppl.views.recipe import View

BATCH: Final = 128


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
    encoder.train()
    for step in range(steps):
        index_B = stream_indices(step, count, len(labels_L), seed, "supervised").to(device)
        rng = generator(seed, "supervised", step, device)
        (crops,) = cut_views(images_L3HW[index_B], [view], 1, rng)
        logits = classifier(encoder(finish(crops, view, mean_3, std_3, rng)))
        for group in optimizer.param_groups:
            group["lr"] = warmup_cosine(step, peak=lr, warmup=steps // 10, total=steps)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, labels_L[index_B]).backward()
        optimizer.step()
        if advance is not None:
            advance(step + 1)
    return classifier
