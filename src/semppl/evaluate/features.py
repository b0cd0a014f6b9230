"""Features of whole images from a frozen encoder. Shapes: N images, F features, s side of a view."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from semppl.data.images import Images, batches
from semppl.views.whole import whole_crop, whole_view


def whole_batches(
    images: Images,
    *,
    size: int,
    mean_3: Tensor,
    std_3: Tensor,
    batch_size: int = 512,
    workers: int | None = None,
    problems: set[str] | None = None,
) -> Iterator[Tensor]:
    """Normalised whole images [B,3,s,s] on the device of the statistics, in order."""
    prepare = partial(whole_crop, size)
    for part in batches(images, prepare, batch_size=batch_size, workers=workers, problems=problems):
        yield whole_view(part, mean_3, std_3)


@torch.no_grad()
def extract_features(
    encoder: nn.Module,
    images: Images,
    *,
    size: int,
    mean_3: Tensor,
    std_3: Tensor,
    batch_size: int = 512,
    workers: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Features [N, F] in evaluation mode, float32 on the CPU; the encoder comes back in its own mode.

    `advance` hears how many images are done.
    """
    training = encoder.training
    encoder.eval()
    parts, done = [], 0
    for views in whole_batches(
        images, size=size, mean_3=mean_3, std_3=std_3, batch_size=batch_size, workers=workers
    ):
        parts.append(encoder(views).float().cpu())
        done += len(views)
        if advance is not None:
            advance(done)
    encoder.train(training)
    return torch.cat(parts)
