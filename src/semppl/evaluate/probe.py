"""Linear evaluation by SGD: a frozen encoder under random crops and flips (the protocol of released code).

Shapes: B images of a batch, Y classes, F features.
"""

from collections.abc import Callable
from typing import Final, final

import torch
from torch import Tensor, nn
from torch.optim import SGD

from semppl.core.rng import generator
from semppl.evaluate.descent import PLAIN, Examples, Means, descend_
from semppl.evaluate.finetune import num_steps
from semppl.nets.initialise import create_linear
from semppl.optim.schedule import warmup_cosine

EPOCHS: Final = 100
BATCH: Final = 1024
RATE: Final = 0.3
"""For a batch of 256."""


@final
class Probe(nn.Module):
    """Images → frozen encoder → logits of the classes."""

    def __init__(self, encoder: nn.Module, classifier: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier

    def forward(self, images_B3ss: Tensor) -> Tensor:
        """Logits [B, Y]; no gradient reaches the encoder."""
        with torch.no_grad():
            features_BF = self.encoder(images_B3ss)
        return self.classifier(features_BF.float())


def train_probe(
    encoder: nn.Module,
    examples: Examples,
    *,
    num_features: int,
    num_labels: int,
    classes: int,
    epochs: int = EPOCHS,
    batch_size: int,
    seed: int,
    device: torch.device,
    means: Means = PLAIN,
    advance: Callable[[int], None] | None = None,
) -> Probe:
    """Nesterov momentum 0.9, rate 0.3 · batch/256 falling to 0 by a cosine, no warm-up, no weight decay.

    The encoder stays as it is, in evaluation mode with its running statistics, and is shared, not copied.
    """
    classifier = create_linear(num_features, classes, generator(seed, "probe/classifier"))
    probe = Probe(encoder.eval(), classifier.to(device))
    steps, peak = num_steps(epochs, num_labels, batch_size), RATE * batch_size / 256
    # fused ones read a rate that is a tensor without asking for it
    fused = device.type == "cuda" or None
    optimizer = SGD(probe.classifier.parameters(), lr=peak, momentum=0.9, nesterov=True, fused=fused)

    def rate(step: int) -> list[float]:
        return [warmup_cosine(step, peak=peak, warmup=0, total=steps)]

    descend_(probe, examples, optimizer, rate, steps, means=means, advance=advance)
    return probe.eval()
