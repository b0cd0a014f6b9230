"""Fine-tuning from the first layer of the projector (paper, appendix on semi-supervised learning).

Everything is trained on the labelled images: encoder, the projector's hidden layer, a new classifier. SGD
with Nesterov momentum and without weight decay; views are cropped and flipped, their colours stay.

Shapes: L labelled images, B images of a batch, Y classes, s side of a view.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from semppl.core.rng import generator
from semppl.data.order import stream_indices

EPOCHS: Final = 30
# what the paper tried, at learning rates for a batch of 256
PAPER_ENCODER_RATES: Final = (0.005, 0.0035, 0.003, 0.0025, 0.002, 0.001)
PAPER_CLASSIFIER_RATES: Final = (0.5, 0.3, 0.2, 0.1, 0.05, 0.025)
PAPER_BATCHES: Final = (512, 1024, 2048)

_PER: Final = 256
_MOMENTUM: Final = 0.9
_DROP: Final = 0.2

Crops = Callable[[Tensor, torch.Generator], Tensor]
"""Positions [B] of labelled images and a generator, both on the CPU → float views [B,3,s,s] on the device."""


@dataclass(frozen=True)
class Rates:
    """Learning rates for a batch of 256."""

    encoder: float
    """Also of the hidden layer."""
    classifier: float


# for hundreds of labels, about the paper's range: on digits, larger rates forget what pre-training learnt.
# The most careful comes first, because the first wins a tie
DEFAULT_SWEEP: Final[tuple[Rates, ...]] = (
    Rates(0.001, 0.05),
    Rates(0.005, 0.05),
    Rates(0.005, 0.2),
    Rates(0.02, 0.2),
)


@final
class FineTuned(nn.Module):
    """Images → encoder → hidden layer → logits of the classes."""

    def __init__(self, encoder: nn.Module, hidden: nn.Sequential, classifier: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.hidden, self.classifier = encoder, hidden, classifier

    def features(self, images_B3ss: Tensor) -> Tensor:
        """What the encoder gives."""
        return self.encoder(images_B3ss)

    def forward(self, images_B3ss: Tensor) -> Tensor:
        """Logits [B, Y]."""
        return self.classifier(self.hidden(self.features(images_B3ss)))


def first_layer(projector: nn.Sequential) -> nn.Sequential:
    """Linear, batch norm and ReLU of a projector: the same modules, not copies."""
    return projector[:3]


def create_network(encoder: nn.Module, hidden: nn.Sequential, *, classes: int, seed: int) -> FineTuned:
    """Copies of the given modules that can be trained, and a classifier.

    Its weights are normal with σ = 1/√hidden, cut off at 2σ, its biases 0.
    """
    first, *others = hidden
    if not isinstance(first, nn.Linear) or [type(layer) for layer in others] != [nn.BatchNorm1d, nn.ReLU]:
        raise ValueError(f"the hidden layer is Linear, BatchNorm1d, ReLU (see first_layer), not {hidden}")
    classifier = nn.utils.skip_init(nn.Linear, first.out_features, classes)
    rng = generator(seed, "finetune/classifier")
    sigma = first.out_features**-0.5
    nn.init.trunc_normal_(classifier.weight, std=sigma, a=-2 * sigma, b=2 * sigma, generator=rng)
    nn.init.zeros_(classifier.bias)
    return FineTuned(deepcopy(encoder), deepcopy(hidden), classifier).requires_grad_()


def fine_tune(
    encoder: nn.Module,
    hidden: nn.Sequential,
    crops: Crops,
    labels_L: Tensor,
    *,
    classes: int,
    rates: Rates,
    epochs: int = EPOCHS,
    batch_size: int,
    seed: int,
    device: torch.device,
    advance: Callable[[int, int], None] | None = None,
) -> FineTuned:
    """Train copies of the given modules; they come back on the device, in evaluation mode.

    `hidden` is `first_layer` of the projector. A batch has at most as many images as there are labels, but at
    least two, because batch norm needs them: a single image is shown twice. `advance` hears the steps done
    and all steps.
    """
    if not len(labels_L) or not 0 <= int(labels_L.min()) <= int(labels_L.max()) < classes:
        raise ValueError(f"fine-tuning needs labels from 0 to {classes - 1}, but got {labels_L.unique()}")
    model = create_network(encoder, hidden, classes=classes, seed=seed).to(device).train()
    optimizer = create_sgd(model, rates)
    count = images_per_step(len(labels_L), batch_size)
    steps = math.ceil(epochs * len(labels_L) / count)
    for step in range(steps):
        index_B = stream_indices(step, count, len(labels_L), seed, "finetune")
        views_B3ss = crops(index_B, generator(seed, "finetune", step))
        epoch = step * count // len(labels_L)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(epoch, base=group["base"], batch_size=count, epochs=epochs)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(views_B3ss), labels_L[index_B].to(device)).backward()
        optimizer.step()
        if advance is not None:
            advance(step + 1, steps)
    return model.eval()


def create_sgd(model: FineTuned, rates: Rates) -> SGD:
    """Two groups, encoder with hidden layer and classifier; each remembers its rate for a batch of 256."""
    pretrained = [*model.encoder.parameters(), *model.hidden.parameters()]
    groups = [
        {"params": pretrained, "lr": rates.encoder, "base": rates.encoder},
        {"params": [*model.classifier.parameters()], "lr": rates.classifier, "base": rates.classifier},
    ]
    return SGD(groups, momentum=_MOMENTUM, nesterov=True, weight_decay=0)


def learning_rate(epoch: int, *, base: float, batch_size: int, epochs: int = EPOCHS) -> float:
    """base · batch/256, and a fifth of it from 60 % and again from 80 % of the epochs on."""
    drops = (5 * epoch >= 3 * epochs) + (5 * epoch >= 4 * epochs)
    return base * batch_size / _PER * _DROP**drops


def images_per_step(num_labels: int, batch_size: int) -> int:
    """At most all labelled images, and two at least, for batch norm."""
    return max(min(batch_size, num_labels), 2)


def choose_rates(
    train: Callable[[Rates], FineTuned], score: Callable[[FineTuned], float], sweep: Sequence[Rates]
) -> tuple[Rates, dict[Rates, float]]:
    """The rates whose network scores best, of several the first, and all scores; nan is the worst."""
    if not sweep:
        raise ValueError("there are no rates to choose from")
    scores = {rates: score(train(rates)) for rates in sweep}
    best = max(scores, key=lambda rates: -math.inf if math.isnan(scores[rates]) else scores[rates])
    return best, scores


def predict_logits(model: nn.Module, batches: Iterable[Tensor]) -> Tensor:
    """Logits of all batches in evaluation mode, float32 on the CPU; the model comes back in its own mode."""
    training = model.training
    model.eval()
    parts = []
    try:
        for images_B3ss in batches:
            with torch.inference_mode():
                parts.append(model(images_B3ss).float().cpu())
    finally:
        model.train(training)
    if not parts:
        raise ValueError("there are no images to predict")
    return torch.cat(parts)
