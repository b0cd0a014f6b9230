"""Features of whole images from a frozen encoder. Shapes: N images, F features, s side of a view."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from semppl.data.images import Images, Prepare, batches
from semppl.evaluate.descent import Precision, exact
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
    prepare: Prepare | None = None,
) -> Iterator[Tensor]:
    """Normalised whole images [B,3,s,s] on the device of the statistics, in order.

    `prepare` stands in for the middle square of each image, where the images need something else.
    """
    prepare = prepare or partial(whole_crop, size)
    for part in batches(images, prepare, batch_size=batch_size, workers=workers, problems=problems):
        yield whole_view(part, mean_3, std_3)


def extract_features(
    encoder: nn.Module,
    images: Images,
    *,
    size: int,
    mean_3: Tensor,
    std_3: Tensor,
    batch_size: int = 512,
    workers: int | None = None,
    prepare: Prepare | None = None,
    precision: Precision = exact,
    out_NF: Tensor | None = None,
    problems: set[str] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Features [N, F] in evaluation mode, float32 on the CPU; the encoder comes back in its own mode.

    `out_NF` takes them where they shall lie, such as a file in memory's place; `problems` hears of files that
    cannot be read and are grey; `advance` hears how many images are done.
    """
    views = whole_batches(
        images,
        size=size,
        mean_3=mean_3,
        std_3=std_3,
        batch_size=batch_size,
        workers=workers,
        problems=problems,
        prepare=prepare,
    )
    parts, done = list[Tensor](), 0
    for part in encoded(encoder, views, precision):
        if out_NF is None:
            parts.append(part)
        else:
            out_NF[done : done + len(part)] = part
        done += len(part)
        if advance is not None:
            advance(done)
    return torch.cat(parts) if out_NF is None else out_NF


def encoded(encoder: nn.Module, views: Iterable[Tensor], precision: Precision = exact) -> Iterator[Tensor]:
    """Features of each batch in evaluation mode, float32 on the CPU; the encoder comes back in its mode."""
    training = encoder.training
    encoder.eval()
    try:
        for views_B3ss in views:
            with torch.inference_mode(), precision():
                features_BF = encoder(views_B3ss).float().cpu()
            yield features_BF
    finally:
        encoder.train(training)
