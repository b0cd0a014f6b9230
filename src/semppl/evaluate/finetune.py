"""Fine-tuning from the first layer of the projector (paper, appendix on semi-supervised learning).

Everything is trained on the labelled images: encoder, the projector's hidden layer, a new classifier. SGD
with Nesterov momentum and without weight decay; views are cropped and flipped, their colours stay.

Shapes: L labelled images, B images of a batch, Y classes, s side of a view.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeVar, final

import torch
from torch import Tensor, nn
from torch.optim import SGD

from semppl.core.rng import generator
from semppl.evaluate.descent import PLAIN, Examples, Means, Precision, descend_, exact
from semppl.evaluate.exam import Mark
from semppl.nets.initialise import create_linear

S = TypeVar("S", bound=Hashable)

EPOCHS: Final = 30
# what the paper tried, at learning rates for a batch of 256
PAPER_ENCODER_RATES: Final = (0.005, 0.0035, 0.003, 0.0025, 0.002, 0.001)
PAPER_CLASSIFIER_RATES: Final = (0.5, 0.3, 0.2, 0.1, 0.05, 0.025)
PAPER_BATCHES: Final = (512, 1024, 2048)

_PER: Final = 256
_MOMENTUM: Final = 0.9
_DROP: Final = 0.2


@dataclass(frozen=True)
class Rates:
    """Learning rates for a batch of 256."""

    encoder: float
    """Also of the hidden layer."""
    classifier: float

    def __str__(self) -> str:
        return f"{self.encoder:g} and {self.classifier:g}"

    def bolder(self, than: "Rates") -> bool:
        """Whether none of them is smaller."""
        return self.encoder >= than.encoder and self.classifier >= than.classifier


# for hundreds of labels, about the paper's range: on digits, larger rates forget what pre-training learnt.
# The most careful comes first, because the first wins a tie
DEFAULT_SWEEP: Final[tuple[Rates, ...]] = (
    Rates(0.001, 0.05),
    Rates(0.005, 0.05),
    Rates(0.005, 0.2),
    Rates(0.02, 0.2),
)


# the 108 settings of the paper: batch and rates
PAPER_SWEEP: Final[tuple[tuple[int, Rates], ...]] = tuple(
    (batch, Rates(encoder, classifier))
    for batch, encoder, classifier in product(PAPER_BATCHES, PAPER_ENCODER_RATES, PAPER_CLASSIFIER_RATES)
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
    classifier = create_linear(first.out_features, classes, generator(seed, "finetune/classifier"))
    return FineTuned(deepcopy(encoder), deepcopy(hidden), classifier).requires_grad_()


def fine_tune(
    encoder: nn.Module,
    hidden: nn.Sequential,
    examples: Examples,
    *,
    num_labels: int,
    classes: int,
    rates: Rates,
    epochs: int = EPOCHS,
    batch_size: int,
    seed: int,
    device: torch.device,
    means: Means = PLAIN,
    advance: Callable[[int], None] | None = None,
) -> FineTuned:
    """Train copies of the given modules; they come back on the device, in evaluation mode.

    `hidden` is `first_layer` of the projector; `batch_size` is what `images_per_step` says of the examples.
    """
    model = create_network(encoder, hidden, classes=classes, seed=seed).to(device).train()
    optimizer = create_sgd(model, rates)

    def rate(step: int) -> list[float]:
        epoch = step * batch_size // num_labels
        return [
            learning_rate(epoch, base=base, batch_size=batch_size, epochs=epochs)
            for base in (rates.encoder, rates.classifier)
        ]

    steps = num_steps(epochs, num_labels, batch_size)
    descend_(model, examples, optimizer, rate, steps, means=means, advance=advance)
    return model.eval()


def num_steps(epochs: float, num_labels: int, batch_size: int) -> int:
    """So many that every image is seen `epochs` times at least."""
    return math.ceil(epochs * num_labels / batch_size)


def create_sgd(model: FineTuned, rates: Rates) -> SGD:
    """Two groups: the encoder with the hidden layer, and the classifier."""
    pretrained = [*model.encoder.parameters(), *model.hidden.parameters()]
    groups = [
        {"params": pretrained, "lr": rates.encoder},
        {"params": [*model.classifier.parameters()], "lr": rates.classifier},
    ]
    # fused ones read a rate that is a tensor without asking for it
    fused = pretrained[0].is_cuda or None
    return SGD(groups, momentum=_MOMENTUM, nesterov=True, weight_decay=0, fused=fused)


def learning_rate(epoch: int, *, base: float, batch_size: int, epochs: int = EPOCHS) -> float:
    """base · batch/256, and a fifth of it from 60 % and again from 80 % of the epochs on."""
    drops = (5 * epoch >= 3 * epochs) + (5 * epoch >= 4 * epochs)
    return base * batch_size / _PER * _DROP**drops


def images_per_step(num_labels: int, batch_size: int) -> int:
    """At most all labelled images, and two at least, for batch norm: a single image is shown twice."""
    return max(min(batch_size, num_labels), 2)


def best_first(settings: Sequence[S], score: Callable[[S], float]) -> dict[S, float]:
    """The settings with their scores, the best one first, of equals that which came first; nan is the
    worst.
    """
    if not settings:
        raise ValueError("there is nothing to choose from")
    scores = {setting: score(setting) for setting in settings}
    return dict(sorted(scores.items(), key=lambda item: math.inf if math.isnan(item[1]) else -item[1]))


def ran_away(own: Mark, promised: Mark) -> bool:
    """Whether a training ended with fewer of its own labels right than its setting had of labels left out,
    by more than chance. Large rates may ruin the encoder in one training and not in the next: with 250 labels
    of CIFAR-10 a setting that had 56 % of the labels left out once had 21.9 % of the test images.
    """
    return own.accuracy < promised.low


def predict_logits(model: nn.Module, batches: Iterable[Tensor], precision: Precision = exact) -> Tensor:
    """Logits of all batches in evaluation mode, float32 on the CPU; the model comes back in its own mode."""
    training = model.training
    model.eval()
    parts = []
    try:
        for images_B3ss in batches:
            with torch.inference_mode(), precision():
                parts.append(model(images_B3ss).float().cpu())
    finally:
        model.train(training)
    if not parts:
        raise ValueError("there are no images to predict")
    return torch.cat(parts)
