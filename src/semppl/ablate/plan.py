"""From a table to its cells: each row in each seed, named by what it changes, checked before anything is
trained.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, final

import torch
from rich.console import Console

from semppl.ablate.cell import Cell, environment_of, score_of
from semppl.ablate.copies import ADVICE, Copies
from semppl.ablate.own import OWN, require_different, said_with
from semppl.ablate.settings import TABLES, AblateFlags, labels_per_class
from semppl.ablate.table import Row, Table, applied
from semppl.ablate.tables import build_table
from semppl.config import Config, ViewsConfig
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.data.dataset import Dataset
from semppl.data.scan import as_written
from semppl.data.splits import digest, split_table
from semppl.differing import decisive, digest_of
from semppl.evaluate.exam import final_exam
from semppl.train.build import build_views
from semppl.train.objectives import build_objective
from semppl.train.prepare import left_out, load_for, resolved_for
from semppl.train.resume import require_same_run


class _Held(NamedTuple):
    """Data that is in memory."""

    key: object
    searched: bool
    """Whether files were left out because reading showed damage, and not because a run says so."""
    dataset: Dataset

    def serves(self, key: object, known: Mapping[str, str] | None) -> bool:
        """Whether it is what would be read: for a new run, or without the files that one has left out."""
        same = self.searched if known is None else self._left_out == known.keys()
        return self.key == key and same

    @property
    def _left_out(self) -> set[str]:
        return {as_written(bad.path) for bad in self.dataset.bad}


@final
class Shelf:
    """Data of the cells: the same labels of the same images are read once, and one set is held at a time."""

    def __init__(self, device: torch.device, console: Console) -> None:
        self._device, self._console = device, console
        self._held: _Held | None = None

    def get(self, config: Config, run: RunDirectory | None = None) -> Dataset:
        """The data of a configuration; of a run that has begun, without the files that it left out."""
        key, known = data_of(config), left_out(run)
        if self._held is None or not self._held.serves(key, known):
            self._held = None  # one set at a time
            dataset = load_for(config, self._device, self._console, run=run)
            self._held = _Held(key, known is None, dataset)
        return self._held.dataset


def data_of(config: Config) -> tuple[object, ...]:
    """What decides on the data of a cell."""
    fixed = replace(config.data, split_seed=config.split_seed, validation=config.data.validation or 0.0)
    return config.source, fixed, config.method.labels == "oracle", config.saliency.probability > 0


@dataclass(frozen=True)
class Plan:
    """A table with its cells."""

    table: Table
    base: Config
    """Resolved, of the first seed."""
    seeds: Sequence[int]
    grid: Mapping[tuple[str, int], Cell]
    """(name of the row, seed) → its cell; rows that compute the same share one."""

    @cached_property
    def cells(self) -> list[Cell]:
        """Each once."""
        return cells_of([self])


def cells_of(plans: Sequence[Plan]) -> list[Cell]:
    """Of all tables, each once, seed by seed, so that what is cut short is fair to rows and tables."""
    seeds = dict.fromkeys(seed for plan in plans for seed in plan.seeds)
    ordered = [plan.grid[row.name, seed] for seed in seeds for plan in plans for row in plan.table.rows]
    cells: dict[str, Cell] = {}
    for cell in ordered:
        other = cells.setdefault(cell.name, cell)
        if decisive(other.config) != decisive(cell.config):
            raise UserError(f"two different cells would be {cell.name}: give one of them another value")
    return list(cells.values())


def plan_cells(config: Config, name: str, flags: AblateFlags, out: Path, dataset: Dataset) -> Plan:
    """Everything that the data decides is decided once, for the configuration as it is: a row then differs
    from another in what it is about, and in nothing that follows from it.
    """
    base = resolved_for(config, dataset)
    table = build_table(name, base, labels_per_class(flags), flags.rows)
    seeds = range(config.seed, config.seed + flags.seeds)
    names = _papers_names(table, base, dataset) if name == OWN else {}
    grid = {}
    for seed in seeds:
        split = seed if config.data.split_seed is None else config.data.split_seed
        of_seed = replace(base, seed=seed, data=replace(base.data, split_seed=split))
        for row in table.rows:
            with said_with(row.name) if name == OWN and row.changes else nullcontext():
                slug, complete = _complete(row, of_seed, dataset)
            cell = f"{names.setdefault(digest_of(complete), slug)}-seed{seed}"
            grid[row.name, seed] = Cell(cell, complete, out / cell, len(dataset.labels_M))
    if name == OWN:
        require_different([(row.name, _computed(grid[row.name, seeds[0]].config)) for row in table.rows])
    return Plan(table, base, seeds, grid)


def _complete(row: Row, base: Config, dataset: Dataset) -> tuple[str, Config]:
    """A row's part of its cell's name, and its configuration, of which nothing is open or impossible."""
    slug, changed = applied(row, base)
    complete = resolved_for(changed, dataset)
    try:  # some values only training would refuse
        build_objective(complete.method)
        build_views(complete.views)
    except ValueError as error:
        raise UserError(str(error)) from error
    return slug, complete


def _computed(config: Config) -> str:
    """The same for what computes the same: views count as they are made, not as they are asked for."""
    return f"{build_views(config.views)} {digest_of(replace(config, views=ViewsConfig()))}"


def _papers_names(own: Table, base: Config, dataset: Dataset) -> dict[str, str]:
    """Configuration → what the cells of the paper's tables are called: an own row that has one shares it."""
    names: dict[str, str] = {}
    counts = {applied(row, base)[1].data.labels_per_class for row in own.rows} - {None}
    for table in filter(OWN.__ne__, TABLES):
        with suppress(UserError):  # not every configuration can have every table
            for row in build_table(table, base, sorted(filter(None, counts))).rows:
                slug, complete = _complete(row, base, dataset)
                names.setdefault(digest_of(complete), slug)
    return names


def foreign_cells(plans: Sequence[Plan], shelf: Shelf, copies: Copies, *, overwrite: bool) -> list[Cell]:
    """Cells in whose place another run is: refused, unless they may be overwritten. A cell of which there is
    a copy needs no place; a copy of another run is refused in any case.

    The data of every cell that is there already is read again and compared, finished or not; of the others
    that of the first seed is, so that what it lacks is known now.
    """
    foreign = []
    first = {plan.grid[row.name, plan.seeds[0]].name for plan in plans for row in plan.table.rows}
    for cell in sorted(cells_of(plans), key=lambda cell: str(data_of(cell.config))):
        if (copy := copies.of(cell)) is not None:
            _require_usable(copy, shelf.get(cell.config))
            continue
        there = cell.run.exists
        if not there:
            cell.run.require_free(overwrite=False, resumable=False)
        if there or cell.name in first:
            dataset = shelf.get(cell.config, cell.run if there else None)
            if final_exam(dataset, most=1) is None:
                raise UserError(
                    f"{dataset.name}: nothing to measure on: give --test, withhold labels with "
                    "--labels-per-class, or set some aside with --validation 0.2"
                )
            if there and (problem := _difference(cell, dataset)) is not None:
                if not overwrite:
                    raise UserError(f"{problem} (another --out keeps it, --overwrite replaces it)")
                foreign.append(cell)
    return foreign


def _require_usable(copy: Cell, dataset: Dataset) -> None:
    """Refuse one of another run, one that is damaged, or without what a table shows."""
    try:
        problem, score = _difference(copy, dataset), score_of(copy)
    except (ValueError, TypeError, LookupError, OSError) as error:
        raise UserError(f"{copy.path} is a damaged copy ({type(error).__name__}): {ADVICE}") from error
    if problem is not None:
        raise UserError(f"{problem} (it is a copy: {ADVICE})")
    if score is None or not copy.run.metrics.is_file():
        raise UserError(f"{copy.path} is a copy without the results of a cell: {ADVICE}")


def _difference(cell: Cell, dataset: Dataset) -> str | None:
    """Why a run is not this cell's, in words."""
    try:
        require_same_run(cell.config, cell.run, {"split": digest(split_table(dataset))})
    except UserError as error:
        return str(error)
    known = environment_of(cell.run)
    if known.get("data_sha256", dataset.fingerprint) != dataset.fingerprint:
        return f"{cell.path} was trained on other images"
    if known.get("masks_sha256", dataset.masks_fingerprint) != dataset.masks_fingerprint:
        return f"{cell.path} was trained with other masks than those in {dataset.masks_place or dataset.name}"
    return None
