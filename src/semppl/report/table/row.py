"""A row of a table of results: the seeds of one configuration."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from semppl.report.collect import Run
from semppl.report.table.measure import Measurement, Seeds
from semppl.report.table.method import Method


@dataclass(frozen=True)
class Row:
    """Seeds of one configuration."""

    title: str
    """What several rows may be called."""
    method: Method
    epochs: str
    settings: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    begun: tuple[str, ...] = ()
    """With which weights, where rows differ in it."""
    said: tuple[str, ...] = ()
    """In which flags it is not like the others of its title."""
    unsaid: tuple[str, ...] = ()
    """What rows of its title have that do not say otherwise."""

    @property
    def name(self) -> str:
        """Title and flags."""
        return ", ".join([self.title, *self.begun, *self.said])

    def is_usual_for(self, row: "Row") -> bool:
        """Whether the other one says in what it differs from this one."""
        alike = (self.title, self.begun, self.epochs) == (row.title, row.begun, row.epochs)
        return alike and bool(self.unsaid and row.said) and not self.said

    @property
    def runs(self) -> list[Run]:
        """Each once."""
        return list({each.run.path: each.run for each in self.measurements}.values())

    @property
    def seeds(self) -> list[Seeds]:
        """That any column has, in order."""
        return sorted({seeds for column in self.columns for seeds in self.values(column)}, key=str)

    @property
    def columns(self) -> set[str]:
        """That have a number."""
        return {each.column for each in self.measurements}

    def values(self, column: str) -> dict[Seeds, float]:
        """The same seeds measured twice count once, with their mean; an unknown seed is one of its run."""
        found: dict[Seeds, list[float]] = {}
        places = {run.path: place for place, run in enumerate(self.runs)}
        for each in self.measurements:
            if each.column == column:
                seed, split = each.seeds
                own = -1 - places[each.run.path] if seed is None else seed
                found.setdefault((own, split), []).append(each.value)
        return {seeds: statistics.fmean(values) for seeds, values in found.items()}


def known(seeds: Seeds) -> bool:
    """Whether two rows may have them in common: one that stands for a run without any is below zero."""
    return all(seed is not None and seed >= 0 for seed in seeds)


def finite_epochs(row: Row) -> float:
    """For an order; rows without any come first."""
    try:
        return float(row.epochs)
    except ValueError:
        return 0.0
