"""Images are shared out among ranks, and all of them have all the answers."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from semppl.data.images import Images
from semppl.train.ranks import Ranks

Answer: TypeAlias = Callable[[Images, Callable[[int], None]], Tensor]
"""Images → a row for each; the second argument hears how many are done."""


def shared_out(
    ranks: Ranks, images: Images, answer: Answer, problems: set[str], advance: Callable[[int], None]
) -> Tensor:
    """Rows for all images, of which each rank answers for its part; too few of them are not shared.

    `problems`, which `answer` may add to, are those of all ranks in the end.
    """
    total, world = len(images), ranks.world
    if world == 1 or total < world:
        return answer(images, advance)
    rows = ranks.rows(total)
    mine = answer(images[torch.arange(rows.start, rows.stop)], lambda done: advance(min(done * world, total)))
    problems.update(*ranks.of_all(problems))
    return ranks.gather(mine, total, dim=0)
