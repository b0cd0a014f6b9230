"""A feed as labelled examples: what training on labels asks for. Shapes: B images of a batch, s side."""

from collections.abc import Callable

from torch import Tensor

from semppl.evaluate.descent import Examples
from semppl.train.feed import Feed


def examples_of(
    feed: Feed,
    normalised: Callable[[Tensor], Tensor],
    regret: Callable[[set[str]], None],
    *,
    harden: Callable[[int, Tensor], Tensor] | None = None,
) -> tuple[Examples, Callable[[], None]]:
    """The first view of each step with its labels, and what to call when no more are wanted: it ends the feed
    and names files that could not be read. What is to be hardened is the second view.
    """

    def examples(step: int) -> tuple[Tensor, Tensor]:
        batch = feed(step)
        views = normalised(batch.crops[0]) if harden is None else harden(step, batch.crops[1])
        return views, batch.labels_B

    def close() -> None:
        feed.close()
        regret(feed.unreadable)

    return examples, close
