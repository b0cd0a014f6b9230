"""A feed as labelled examples: what training on labels asks for. Shapes: B images of a batch, s side."""

from collections.abc import Callable

from torch import Tensor

from semppl.evaluate.descent import Examples
from semppl.train.feed import Feed


def examples_of(
    feed: Feed, normalised: Callable[[Tensor], Tensor], regret: Callable[[set[str]], None]
) -> tuple[Examples, Callable[[], None]]:
    """The first view of each step with its labels, and what to call when no more are wanted: it ends the feed
    and names files that could not be read.
    """

    def examples(step: int) -> tuple[Tensor, Tensor]:
        batch = feed(step)
        return normalised(batch.crops[0]), batch.labels_B

    def close() -> None:
        feed.close()
        regret(feed.unreadable)

    return examples, close
