"""`semppl report RUN... --table FILE.md`: run directories in, one Markdown page out."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from semppl.core.by_labels import NO_PICTURE, drawable
from semppl.core.counted import counted
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import is_stream, write_text
from semppl.report.collect import NO_CLASSES, Run, collect
from semppl.report.settings import ReportFlags
from semppl.report.table.beside import Published, read_published
from semppl.report.table.keep import keep_, records_of
from semppl.report.table.measure import Measurement, measured
from semppl.report.table.page import Facts, table_page
from semppl.report.table.picture import draw_, worth_drawing
from semppl.report.table.record import is_record
from semppl.report.table.sections import Section, sections
from semppl.report.table.settings import picture_beside, table_destination
from semppl.report.text import bytes_of, plain

# what a table does not read
_OTHERS: Final = ("label_next.csv", "suspicious_labels.csv", "predictions.csv", "bad_files.csv")


def run_table(paths: Sequence[Path], flags: ReportFlags, console: Console) -> Path:
    """Writes the page and gives its file; a run that cannot be used is named and left out.

    Records to keep come before the page, which would claim too much without them.
    """
    out = table_destination(flags)
    published = [] if flags.beside is None else read_published(flags.beside)
    given = {path: shown(path, out) for path in paths}
    runs: list[Run] = []
    found: list[Measurement] = []
    problems: list[str] = []
    for path in paths:
        run, numbers, said = _looked_at(path)
        runs += [] if run is None else [run]
        found += numbers
        problems += [f"{given[path]}: {problem}" for problem in said]
    if not found:
        why = f" ({problems[0]})" if problems else ""
        raise UserError(plain(f"no run has a result for a table{why}: run semppl evaluate on them first"))
    made = sections(found)
    problems += _homeless(published, made)
    beside = [] if flags.beside is None else ["--beside", shown(flags.beside, out)]
    last = ["--table", shown(out, out), *beside]
    facts = Facts(
        command=plain(shlex.join(["semppl", "report", *given.values(), *last])),
        short=f"semppl report RUN… {shlex.join(last)}",
        names={path: plain(_called(path, name)) for path, name in given.items()},
        published=published,
        problems=problems,
    )
    worth = worth_drawing(made) and not is_stream(out)
    picture = picture_beside(out, overwrite=flags.overwrite) if worth and drawable() else None
    kept = _kept(runs, flags)
    try:
        if picture is not None:
            draw_(picture, made, published)
        write_text(out, table_page(made, replace(facts, picture=None if picture is None else picture.name)))
    except OSError as error:
        raise RunError(
            f"{plain(str(out))} cannot be written ({error.strerror}): choose another --table"
        ) from error
    for problem in problems:
        console.print(plain(problem), highlight=False, soft_wrap=True)
    for line in kept:
        console.print(plain(line), highlight=False, soft_wrap=True)
    if worth and picture is None:
        console.print(NO_PICTURE, highlight=False, markup=False, soft_wrap=True)
    rows = sum(len(section.rows) for section in made)
    size = f"{counted(rows, 'row')}, {counted(len(made), 'section')}"
    console.print(plain(f"table: {out} ({size})"), highlight=False, soft_wrap=True)
    return out


def shown(path: Path, out: Path) -> str:
    """As given; a whole path below the page's folder, from there."""
    folder = out.resolve().parent
    if path.is_absolute() and path.is_relative_to(folder):
        return str(path.relative_to(folder))
    return str(path)


def _called(path: Path, name: str) -> str:
    """A run as the page's commands name it: a copy is no place to train in, so its run could be anywhere."""
    return f"runs/{path.name}" if is_record(path) else name


def _kept(runs: Sequence[Run], flags: ReportFlags) -> list[str]:
    """What was, in words."""
    if flags.keep is None:
        return []
    places = records_of(runs, flags.keep)
    return [f"kept: {flags.keep} ({len(places)} copied, {bytes_of(keep_(places))})"]


def _looked_at(path: Path) -> tuple[Run | None, list[Measurement], list[str]]:
    try:
        run = collect(path)
    except UserError:
        return None, [], ["no run (no config.yaml): left out"]
    if not run.config:
        return run, [], [*_gaps(run), "left out"]
    numbers, problems = measured(run)
    if not run.evaluations:
        problems.append("left out")
    return run, numbers, [*_gaps(run), *problems]


def _gaps(run: Run) -> list[str]:
    """That concern a table."""
    gaps = [gap.what for gap in run.gaps if not gap.pictures and gap.what != NO_CLASSES]
    return [what for what in gaps if not what.startswith(_OTHERS)]


def _homeless(published: Sequence[Published], made: Sequence[Section]) -> list[str]:
    """Published rows that no section is for; those that two would claim are refused."""
    several = {section.data for section in made}
    if published and len(several) > 1:
        listed = ", ".join(plain(name) for name, _ in sorted(several))
        raise UserError(f"--beside is about one data set, and the runs are of {listed}: make a page of each")
    labels = {section.labels for section in made}
    return [
        f"{each.name}, published with {each.labels:,} labels: no run has as many, so it is left out"
        for each in published
        if each.labels not in labels
    ]
