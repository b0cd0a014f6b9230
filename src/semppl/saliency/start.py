"""Where the refining network starts: an encoder that has seen the images, but no map and no label.

ReLICv2 took one that SwAV had trained on ImageNet; here it is SimCLR on the user's own images, by the
training of this package.

Shapes: N images, s side of the network's square.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from semppl.config import Config, MethodConfig, NetConfig, OptimConfig, SaliencyConfig, ViewsConfig
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.saliency.network import ENCODER
from semppl.train.build import build_training
from semppl.train.prepare import resolved_for

STEPS: Final = 3000
_SIDE: Final = 96
_BATCH: Final = 512


def started_encoder(
    images_N3ss: Tensor,
    *,
    device: torch.device,
    seed: int,
    advance: Callable[[int, int], None],
    steps: int = STEPS,
) -> dict[str, Tensor]:
    """The weights of an encoder, on the CPU."""
    dataset = Dataset(
        name="images of the network",
        images=images_N3ss,
        labels_M=torch.full((len(images_N3ss),), UNLABELLED),
        names=[str(number) for number in range(len(images_N3ss))],
        classes=(),
    )
    config = resolved_for(_config(len(images_N3ss), images_N3ss.shape[-1], steps, seed), dataset)
    training = build_training(config, dataset, device)
    for step in range(training.total_steps):
        training.step(training.feed(step))
        advance(step + 1, training.total_steps)
    return {name: value.cpu().clone() for name, value in training.state.online.encoder.state_dict().items()}


def _config(num_images: int, side: int, steps: int, seed: int) -> Config:
    batch = min(_BATCH, num_images)
    return Config(
        epochs=(steps + 0.5) * batch / num_images,
        batch_size=batch,
        seed=seed,
        views=ViewsConfig(large=2, small=0, large_size=min(_SIDE, side), recipe="paper"),
        saliency=SaliencyConfig(probability=0.0),
        net=NetConfig(encoder=ENCODER, stem="imagenet", head_hidden=1024, head_outputs=128, last_scale=1.0),
        method=MethodConfig(objective="simclr", positives=0),
        optim=OptimConfig(name="adamw", base_lr=0.001, weight_decay=1e-3),
    )
