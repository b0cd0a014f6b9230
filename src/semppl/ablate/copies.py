"""`--keep DIR`: a small copy of each finished cell, as `report --keep` makes them, so that tables can be
written again where the runs are not. No torch here.
"""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from semppl.ablate.cell import Cell, Score, score_of
from semppl.core.errors import RunError, UserError
from semppl.core.lock import locked
from semppl.core.rundir import RunDirectory
from semppl.report.collect import collect
from semppl.report.table.keep import keep_, records_of
from semppl.report.table.record import is_record

ADVICE: Final = "move it away, or choose another --keep"


@final
class Copies:
    """What is kept in a folder; nothing where there is none."""

    def __init__(self, folder: Path | None, out: Path) -> None:
        """`out` holds the runs themselves."""
        self._folder = folder
        if folder is not None:
            place, runs = folder.resolve(), out.resolve()
            if place in (runs, *runs.parents):
                raise UserError(
                    f"--keep {folder} holds the runs themselves: choose a folder for copies alone"
                )
            if RunDirectory(place).exists:
                raise UserError(f"--keep {folder} is a run: choose a folder for copies alone")

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else copies to the folder meanwhile; one that cannot be written is refused."""
        return nullcontext() if self._folder is None else locked(self._folder, "--keep")

    def of(self, cell: Cell) -> Cell | None:
        """The copy, as a cell that lies elsewhere; anything else in its place is refused."""
        place = None if self._folder is None else self._folder / cell.name
        if place is None or not os.path.lexists(place):
            return None
        if not is_record(place):
            raise UserError(f"{place} is no copy that --keep made: {ADVICE}")
        return replace(cell, path=place)

    def score(self, cell: Cell) -> Score | None:
        """As its copy says."""
        copy = self.of(cell)
        return None if copy is None else score_of(copy)

    def keep_(self, finished: Iterable[Cell]) -> None:
        """Copy those that have no copy yet."""
        if self._folder is None:
            return
        if runs := [collect(cell.path) for cell in finished if self.of(cell) is None]:
            keep_(records_of(runs, self._folder))

    def attempt_(self, finished: Iterable[Cell]) -> str:
        """The same where more than copies is at stake: what went wrong, in words, or nothing."""
        try:
            self.keep_(finished)
        except (RunError, UserError) as error:
            return str(error)
        return ""
