"""How good the maps are where somebody has drawn the truth. It is read here alone, when all masks are made.

Shapes: H×W pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from semppl.core.errors import UserError
from semppl.data.masks import folder_of, other_mask_name, read_mask
from semppl.saliency.items import Items
from semppl.saliency.looking import Look, Refine, look_at, with_refined
from semppl.saliency.making import THRESHOLD
from semppl.saliency.reading import Item, resized
from semppl.saliency.score import Scores, Tally
from semppl.saliency.team import Team

COLUMNS = ("map", "best F", "at", f"F at {THRESHOLD}", f"mean F at {THRESHOLD}", "mean error")


def score(
    items: Items,
    truth: Path,
    crew: Team,
    refine: Refine | None,
    side: int | None,
    advance: Callable[[int, int], None],
) -> tuple[dict[str, Scores], tuple[str, ...]]:
    """The scores of each map by its name, and what the user should know."""
    files = truths(items, truth)
    tallies, odd = dict[str, Tally](), list[str]()
    look = partial(look_at, side=side, baselines=True)
    looks = crew.over(look, (items[number] for number in files))
    for done, (file, found) in enumerate(zip(files.values(), looks, strict=False), 1):
        if found is not None and not _add_(tallies, with_refined(found, refine), file):
            odd.append(found.item.name)
        advance(done, len(files))
    crew.check()
    if not tallies:
        raise UserError(
            f"--truth {truth}: no mask there has the size of its image, such as that of {_some(odd)}"
        )
    notes = (f"true masks of another size than their image are left out: {_some(odd)}",) if odd else ()
    return {name: tally.scores(THRESHOLD) for name, tally in tallies.items()}, notes


def truths(items: Items, truth: Path) -> dict[int, Path]:
    """The numbers of the images that have a true mask, and where it is; that there is none is an error.

    No mask is opened.
    """
    folder, found = folder_of(truth), dict[int, Path]()
    for number in range(len(items)):
        if (file := _truth(items[number], folder)) is not None:
            found[number] = file
    if not found:
        raise UserError(
            f"--truth {truth}: no mask has the name of an image, such as {items[0].mask} or "
            f"{other_mask_name(items[0].name)}"
        )
    return found


def rows(scores: dict[str, Scores]) -> list[list[str]]:
    """For a table of `COLUMNS`."""
    return [
        [
            name,
            f"{each.best_f:.3f}",
            f"{each.best_threshold:.2f}",
            f"{each.f:.3f}",
            f"{each.mean_f:.3f}",
            f"{each.error:.3f}",
        ]
        for name, each in scores.items()
    ]


def plain(scores: dict[str, Scores]) -> dict[str, object]:
    """For a file."""
    return {
        "threshold": THRESHOLD,
        "beta2": 0.3,
        "maps": {name: asdict(each) for name, each in scores.items()},
    }


def _truth(item: Item, folder: Path) -> Path | None:
    files = (folder / item.mask, folder / other_mask_name(item.name))
    return next((file for file in files if file.is_file()), None)


def _add_(tallies: dict[str, Tally], look: Look, file: Path) -> bool:
    """Whether the true mask has the size of the image."""
    truth_HW = read_mask(str(file))
    if truth_HW.shape != look.size:
        return False
    for name, map_hw in look.maps.items():
        map_HW = resized(map_hw, look.size).astype(np.float32) / 255
        tallies.setdefault(name, Tally()).add_(map_HW, truth_HW)
    return True


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
