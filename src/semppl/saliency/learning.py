"""The network that refines the estimates: its examples, its training, and its maps for all images.

Shapes: N examples, K sources, B images, s side of the network's square.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.data.dataset import evenly
from semppl.saliency.examples import Example, example_part
from semppl.saliency.items import Items
from semppl.saliency.making import Answers, Outcome, Part, Squares, in_levels, read_part, write_part
from semppl.saliency.place import Place
from semppl.saliency.refiner import SIZE, Refiner, train_refiner
from semppl.saliency.team import Team

Advance = Callable[[str, int, int], None]
T = TypeVar("T")
R = TypeVar("R")

# images that a process estimates, or reads, before it reports
_ESTIMATED: Final = 4
_READ: Final = 32
# more images than these teach the network's eyes little, and would fill the memory
_POOL: Final = 10_000


def learnt_refiner(
    items: Items, place: Place, crew: Team, *, most: int, device: torch.device, seed: int, advance: Advance
) -> Refiner:
    """The one that is there already, or a new one that learns from at most `most` images."""
    if place.refiner.is_file():
        return Refiner.load(place.refiner, device)
    examples = _examples(items, place, crew, most, advance)
    pool_P3ss = _pool(items, crew, advance)

    def spread(work: Callable[[T], R], tasks: Iterator[T]) -> Iterator[R]:
        yield from crew.over(work, tasks)
        crew.check()

    refiner = train_refiner(
        torch.from_numpy(np.stack([example.image_3ss for example in examples])),
        torch.from_numpy(np.stack([example.maps_Kss for example in examples])),
        torch.from_numpy(pool_P3ss),
        device=device,
        seed=seed,
        place=place.training,
        spread=spread,
        advance=advance,
    )
    refiner.save(place.refiner)
    return refiner


def _examples(items: Items, place: Place, crew: Team, most: int, advance: Advance) -> list[Example]:
    numbers = evenly(torch.arange(len(items)), most).tolist()
    place.maps.mkdir(parents=True, exist_ok=True)
    work, examples, done = partial(example_part, folder=str(place.maps), side=SIZE), list[Example](), 0
    for some in crew.over(work, items.parts(numbers, _ESTIMATED)):
        examples += [example for example in some if example is not None]
        done += len(some)
        advance("estimating for the network", done, len(numbers))
    crew.check()
    if not examples:
        images = counted(len(numbers), "image")
        raise UserError(f"{images}, none of which can be read, such as {items[numbers[0]].name}")
    return examples


def _pool(items: Items, crew: Team, advance: Advance) -> NDArray[np.uint8]:
    """Images [P,3,s,s] from which the network learns to see before it learns from maps."""
    numbers = evenly(torch.arange(len(items)), _POOL).tolist()
    parts = (Part(some, "", None) for some in items.parts(numbers, _READ))
    seen, done = list[NDArray[np.uint8]](), 0
    for squares in crew.over(partial(read_part, side=SIZE), parts):
        seen.append(squares.images_B3ss)
        done += len(squares.asked) + len(squares.others)
        advance("reading for the network", done, len(numbers))
    crew.check()
    return np.concatenate(seen)


def refined_outcomes(refiner: Refiner, crew: Team, parts: Iterator[Part]) -> Iterable[list[Outcome]]:
    """Processes read, the device answers, processes write."""
    squares = crew.over(partial(read_part, side=refiner.size), parts)
    return crew.over(write_part, (_answered(refiner, part) for part in squares))


def _answered(refiner: Refiner, squares: Squares) -> Answers:
    maps_Bss = refined_maps(refiner, squares.images_B3ss)
    return Answers(squares.asked, maps_Bss, squares.others, squares.masks)


def refined_maps(refiner: Refiner, images_B3ss: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """8-bit [B,s,s]."""
    if not len(images_B3ss):
        return np.zeros((0, refiner.size, refiner.size), np.uint8)
    return in_levels(refiner(torch.from_numpy(images_B3ss)).numpy())
