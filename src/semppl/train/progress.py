"""What a person sees while it runs: a bar with rate and time left, or plain lines without a terminal."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, Self, final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

# pseudo-labels whose truth is known before their share is worth saying
ENOUGH: Final = 20


class _Shown:
    """A bar that is there inside `with`."""

    _bar: Progress

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


@final
class ProgressReport(_Shown):
    """`advance` for each step, `report` for each line of metrics."""

    def __init__(self, console: Console, title: str, *, start: int, total: int, every: float = 15.0) -> None:
        self._console, self._title, self._total, self._every = console, title, total, every
        self._started, self._spoken, self._start = time.monotonic(), time.monotonic(), start
        self._words = ""
        fixed, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=fixed),
            BarColumn(bar_width=8, table_column=replace(fixed)),
            MofNCompleteColumn(table_column=replace(fixed)),
            TimeRemainingColumn(compact=True, table_column=replace(fixed)),
            TextColumn("left, {task.fields[words]}", markup=False, table_column=rest),
            console=console,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task = self._bar.add_task(title, total=total, completed=start, words="")

    def advance(self, step: int) -> None:
        """A step is done."""
        self._bar.update(self._task, completed=step)

    def report(self, row: dict[str, Any]) -> None:
        """New numbers; without a terminal a line now and then, and always the last."""
        self._words = words(row)
        self._bar.update(self._task, words=self._words)
        now = time.monotonic()
        last = row["step"] == self._total
        if self._console.is_terminal or (now - self._spoken < self._every and not last):
            return
        self._spoken = now
        done = row["step"] - self._start
        left = (now - self._started) / max(done, 1) * (self._total - row["step"])
        self._console.print(
            f"{self._title}: step {row['step']}/{self._total}, {left:.0f} s left, {self._words}",
            highlight=False,
            soft_wrap=True,
        )


@final
class StageProgress(_Shown):
    """The same for a stage that only counts: `advance(done)`."""

    def __init__(self, console: Console, title: str, total: int, *, every: float = 15.0) -> None:
        self._console, self._title, self._total, self._every = console, title, total, every
        self._started = self._spoken = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total)

    def advance(self, done: int, total: int | None = None) -> None:
        """So many are done, of another total where some of it fell away; without a terminal a line now and
        then.
        """
        self._total = self._total if total is None else total
        self._bar.update(self._task, completed=done, total=self._total)
        now = time.monotonic()
        if self._console.is_terminal or now - self._spoken < self._every or done >= self._total:
            return
        self._spoken = now
        left = (now - self._started) / max(done, 1) * (self._total - done)
        self._console.print(f"{self._title}: {done:,}/{self._total:,}, {left:.0f} s left", highlight=False)


@final
class Stages:
    """Several stages, one after the other: `advance(title, done, total)`; short ones pass in silence."""

    def __init__(self, console: Console, *, least: int = 2000) -> None:
        self._console, self._least = console, least
        self._title, self._shown = "", ExitStack()
        self._stage: StageProgress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.close()

    def advance(self, title: str, done: int, total: int) -> None:
        """So much of a stage is done."""
        if title != self._title:
            self._shown.close()
            self._title, self._stage = title, None
            if total - done >= self._least:
                self._stage = self._shown.enter_context(StageProgress(self._console, title, total))
        if self._stage is not None:
            self._stage.advance(done)


def print_table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Words on the left, numbers on the right; on a narrow console cells fold between words, and a table
    that is too wide even then goes over the edge, because half a number is a wrong one.
    """
    console.print(f"\n{title}", highlight=False)
    table = Table()
    for i, column in enumerate(columns):
        number = max(len(word) for row in (columns, *rows) for word in (*row[i].split(), ""))
        justify: Literal["left", "right"] = "right" if i else "left"
        table.add_column(column, justify=justify, overflow="fold", min_width=number if i else None)
    for row in rows:
        table.add_row(*row)
    console.print(table, crop=False)


def words(row: dict[str, Any]) -> str:
    """A line of metrics, short."""
    parts = [f"loss {row['loss/total']:.3f}" if "loss/total" in row else "all steps left out"]
    if sum(row.get("pseudo/known_by_votes", [])) >= ENOUGH:
        parts.append(f"{100 * row['pseudo/accuracy']:.0f} % of pseudo-labels right")
    elif "pseudo/mean_share" in row:
        parts.append(f"{100 * row['pseudo/mean_share']:.0f} % of votes agree")
    parts.insert(1, f"{row['images_per_second']:.0f} images/s")
    if row.get("data_wait"):
        parts.insert(2, f"{100 * row['data_wait']:.0f} % of the time waiting for data")
    return ", ".join(parts)
