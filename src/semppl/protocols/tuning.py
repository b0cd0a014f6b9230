"""Fine-tuning one network on some labels. Shapes: L labelled images."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from torch import Tensor

from semppl.evaluate.bookmark import Bookmark
from semppl.evaluate.finetune import FineTuned, Rates, fine_tune, first_layer, images_per_step, num_steps
from semppl.nets.heads import Projected
from semppl.protocols.desk import Desk
from semppl.train.progress import StageProgress


def tune(
    desk: Desk,
    online: Projected,
    index_L: Tensor,
    labels_L: Tensor,
    *,
    rates: Rates,
    epochs: int,
    batch_size: int,
    seed: int,
    title: str | None,
    exact: bool = False,
    advance: Callable[[int], None] | None = None,
    left: AbstractContextManager[Bookmark | None] | None = None,
) -> FineTuned:
    """Fine-tune a copy of the encoder by the paper's protocol; without a title nobody sees how far it is.

    `exact` cuts from the files themselves, read again and again; `left` is where it goes on.
    """
    count = images_per_step(len(labels_L), batch_size)
    examples, close = desk.examples(
        index_L, labels_L, batch_size=count, seed=seed, name="finetune", exact=exact
    )
    console = Console(quiet=True) if title is None else desk.console
    try:
        steps = num_steps(epochs, len(labels_L), count)
        with left or nullcontext() as bookmark, StageProgress(console, title or "", steps) as progress:
            return fine_tune(
                online.encoder,
                first_layer(online.projector),  # type: ignore[arg-type]  # a head is a sequence
                examples,
                num_labels=len(labels_L),
                classes=len(desk.dataset.classes),
                rates=rates,
                epochs=epochs,
                batch_size=count,
                seed=seed,
                device=desk.device,
                means=desk.means._replace(bookmark=bookmark),
                advance=advance or progress.advance,
            )
    finally:
        close()


def right_on(desk: Desk, model: FineTuned, index_L: Tensor, labels_L: Tensor) -> Tensor:
    """Which labels of images of the data set a network answers right; what is not finite is no answer."""
    logits_LY = desk.logits(model, desk.dataset.images[index_L])
    return logits_LY.isfinite().all(1) & (logits_LY.argmax(1) == labels_L)
