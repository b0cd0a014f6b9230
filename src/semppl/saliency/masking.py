"""All masks of a data set: what is there stays, a renamed image is known by its content, the rest is made."""

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, final

import numpy as np

from semppl.data.scan import Bad
from semppl.saliency.index import Index, Row
from semppl.saliency.items import Items
from semppl.saliency.making import TOO_LONG, Outcome, Part
from semppl.saliency.place import Place

Make = Callable[[Iterator[Part]], Iterable[list[Outcome]]]
"""From parts of the images to what became of them; an interruption ends it early."""
_MOVED: Final = "moved"


@final
class Masking:
    """One pass over the data."""

    def __init__(self, items: Items, place: Place, make: Make, *, part: int) -> None:
        """`part` images are handed to a process at a time."""
        self._items, self._place, self._make, self._part = items, place, make, part
        self.index = Index(place.index, place.masks)
        self.bad: list[Bad] = []
        self.made = self.kept = self.moved = 0
        self._moving: list[Outcome] = []

    def run_(self, advance: Callable[[int], None], check: Callable[[], None]) -> None:
        """`advance` hears how many are done; `check` leaves after an interruption."""
        place = self._place
        place.work.mkdir(exist_ok=True)
        np.save(place.known, self.index.known())
        with self.index.open():
            self._round_(range(len(self._items)), str(place.known), advance)
            check()
            lost = self._move_()
            again = [number for number, mask in enumerate(self._items.masks()) if mask in lost]
            self._round_(again, None, advance)
            check()

    def _round_(self, numbers: Sequence[int], known: str | None, advance: Callable[[int], None]) -> None:
        masks = str(self._place.masks)
        parts = (Part(items, masks, known) for items in self._items.parts(numbers, self._part))
        for outcomes in self._make(parts):
            for outcome in outcomes:
                self._take_(outcome)
            advance(self.made + self.kept + self.moved + len(self._moving) + len(self.bad))

    def _take_(self, outcome: Outcome) -> None:
        row = self.index.rows.get(outcome.mask)
        if outcome.problem:
            self.bad.append(Bad(outcome.name, outcome.problem))
        elif outcome.height:
            self.index.add_(
                Row(outcome.content, outcome.mask, outcome.height, outcome.width, outcome.foreground)
            )
            self.made += 1
        elif row is not None and row.content == outcome.content:
            self.kept += 1
        else:
            self._moving.append(outcome)

    def _move_(self) -> set[str]:
        """Masks for images with the content of another; gives the names of those whose mask was replaced.

        All are copied before one is put into its place, because two images may have changed names.
        """
        folder, ready, lost = self._place.work / _MOVED, list[tuple[Outcome, Row]](), set[str]()
        folder.mkdir(exist_ok=True)
        for outcome in self._moving:
            holder = self.index.holder(outcome.content)
            if holder is None:
                lost.add(outcome.mask)
                continue
            shutil.copyfile(self._place.masks / holder, folder / str(len(ready)))
            ready.append((outcome, self.index.rows[holder]))
        self._moving = []
        for number, (outcome, row) in enumerate(ready):
            if _placed(folder / str(number), self._place.masks / outcome.mask):
                self.index.add_(row._replace(name=outcome.mask))
                self.moved += 1
            else:
                self.bad.append(Bad(outcome.name, TOO_LONG))
        shutil.rmtree(folder)
        return lost


def _placed(file: Path, path: Path) -> bool:
    """Whether a file could be put there: not where the name is too long."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.replace(path)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False
    return True
