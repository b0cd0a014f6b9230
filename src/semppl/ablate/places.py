"""Who is in the place of a cell. Where it is another run, that run stays until the cell's turn comes.

So whoever stops at once loses nothing but the cells that had begun. A cell of which there is a copy needs no
place. No torch here.
"""

from collections.abc import Iterable, Sequence
from typing import final

from semppl.ablate.cell import Cell, Score, score_of, steps_done
from semppl.ablate.copies import Copies
from semppl.ablate.files import TableFiles
from semppl.config import to_yaml


@final
class Places:
    """What counts as a cell's own; `begin_` makes its place so."""

    def __init__(self, files: Sequence[TableFiles], foreign: Iterable[Cell], copies: Copies) -> None:
        self._files, self._foreign, self._copies = files, {cell.name for cell in foreign}, copies

    def score(self, cell: Cell) -> Score | None:
        """That of its copy before all others; None where another run is in its place, whatever that found."""
        if (kept := self._copies.score(cell)) is not None:
            return kept
        return None if cell.name in self._foreign else score_of(cell)

    def steps(self, cell: Cell) -> int:
        """Done so far."""
        return 0 if cell.name in self._foreign else steps_done(cell)

    def begin_(self, cell: Cell) -> None:
        """Empty a place that another run has, after the pages that show its numbers: in this order a kill
        in between leaves no page without its cells.
        """
        if cell.name in self._foreign:
            self._withdraw_pages_of_(cell)
            cell.run.prepare_(to_yaml(cell.config), overwrite=True)
            self._foreign.discard(cell.name)

    def withdraw_pages_of_(self, cells: Iterable[Cell]) -> None:
        """Of cells without one score: their old page shows what is no longer there. A run that was left in
        its place keeps its page.
        """
        for cell in cells:
            if cell.name not in self._foreign:
                self._withdraw_pages_of_(cell)

    def _withdraw_pages_of_(self, cell: Cell) -> None:
        """Those that show the cell."""
        for files in self._files:
            if files.shows(cell.name):
                files.withdraw_()
