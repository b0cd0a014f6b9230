"""The page: a section for each data set and number of labels, and below how to make each row again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from semppl.core.counted import counted
from semppl.core.tables import NOTHING, markdown_table
from semppl.report.collect import Run
from semppl.report.table.beside import Published
from semppl.report.table.commands import Names, evaluating, training
from semppl.report.table.method import NETWORK
from semppl.report.table.numbers import bullets, cell, listed, section_parts
from semppl.report.table.row import Row
from semppl.report.table.sections import Section
from semppl.report.table.settings import MADE_BY
from semppl.report.versions import versions

_ABOUT: Final = (
    "Top-1 accuracy in per cent: mean ± standard deviation over seeds, a number alone where there is one "
    "seed; the number of seeds in brackets where it is not the row's. Differences are ± their standard "
    "error. Pseudo-labels: per cent that are right in the last epoch. Minutes are those of one run, and more "
    "where others ran on its device at the same time: of training with what was compiled, of "
    "fine-tuning with the choice of its settings."
)


@dataclass(frozen=True)
class Facts:
    """What is needed to trust the numbers."""

    command: str
    short: str
    """The same without its runs."""
    names: Names
    published: Sequence[Published] = ()
    picture: str | None = None
    """Its file, from the page."""
    problems: Sequence[str] = field(default_factory=tuple)


def table_page(sections: Sequence[Section], facts: Facts) -> str:
    """Markdown."""
    titles = section_titles(sections)
    data = list(dict.fromkeys(name for section in sections for name in section.names))
    runs = {run.path: run for section in sections for row in section.rows for run in row.runs}
    count = counted(len(runs), "run directory", "run directories")
    parts = [
        f"<!-- {MADE_BY}: the same command writes it again -->",
        f"# Results on {listed(data)}",
        f"`{cell(facts.short)}` wrote this page from {count}; the whole command is at its end. {_ABOUT}",
    ]
    if facts.picture is not None:
        parts.append(f"![Accuracy by number of labels]({quote(facts.picture)})")
    for section, title in zip(sections, titles, strict=True):
        published = [each for each in facts.published if each.labels == section.labels]
        parts += section_parts(section, published, title)
    parts += ["## How each row was made", *_made(sections, titles, facts.names)]
    parts += [
        "## Runs",
        markdown_table(("run", "seed", "labels", "split seed", "split.csv, sha256"), _runs(sections, facts)),
    ]
    parts += _versions(list(runs.values()), facts.names)
    if facts.problems:
        parts += ["## Left out, or with gaps", bullets([cell(problem) for problem in facts.problems])]
    parts += ["## The command", _block([facts.command])]
    return "\n\n".join(part for part in parts if part) + "\n"


def section_titles(sections: Sequence[Section]) -> list[str]:
    """By labels; with the data where there are several, and its sha256 where two have one name."""
    data = {section.data for section in sections}
    names = [name for name, _ in data]
    titles = []
    for section in sections:
        name, sha256 = section.data
        more = f" ({sha256[:8]})" if names.count(name) > 1 else ""
        labels = counted(section.labels, "label")
        titles.append(f"{cell(name)}{more}, {labels}" if len(data) > 1 else labels)
    return titles


def _made(sections: Sequence[Section], titles: Sequence[str], names: Names) -> list[str]:
    """Commands of each row; what several sections share is said once."""
    parts, before = list[str](), dict[tuple[str, ...], str]()
    rows = [row for section in sections for row in section.rows if row.method.pretrained]
    told = {run.path for row in rows for run in row.runs}
    for section, title in zip(sections, titles, strict=True):
        for row in section.rows:
            heading = f"{cell(section.called(row))}, {title}"
            parts.append(f"### {heading}")
            if row.method.pretrained:
                parts += _trained(row, heading, names, before)
            else:
                parts += _alone([run for run in row.runs if run.path not in told], names)
                told |= {run.path for run in row.runs}
            parts.append(_block(evaluating(row.measurements, names)))
    return parts


def _alone(runs: Sequence[Run], names: Names) -> list[str]:
    """Of a row that was trained from random weights: how to make runs that no row has told about."""
    about = "Of these runs only the configuration and the labels are used"
    if not runs:
        return [f"{about}:"]
    whole, others = training(runs, names, NETWORK)
    more = f" The same with {'; '.join(f'`{cell(each)}`' for each in others)}." if others else ""
    return [_block(whole), f"{about}, so that one epoch would do.{more} Measured by:"]


def _trained(row: Row, heading: str, names: Names, before: dict[tuple[str, ...], str]) -> list[str]:
    (first, *whole), others = training(row.runs, names)
    key = (first, *whole, *others)
    if key in before:
        return [f"Trained as “{before[key]}”; measured by:"]
    before[key] = heading
    more = (
        f"The same for {len(others)} more, with {'; '.join(f'`{cell(each)}`' for each in others)}. "
        if others
        else ""
    )
    if not whole:
        return [_block([first]), f"{more}Measured by:"]
    return [_block([first]), f"{more}Other runs of this row:", _block(whole), "Measured by:"]


def _block(commands: Sequence[str]) -> str:
    return "\n".join(["```", *commands, "```"])


def _runs(sections: Sequence[Section], facts: Facts) -> list[list[str]]:
    """Each run with each of its choices of labels."""
    lines: dict[tuple[str, ...], None] = {}
    for section in sections:
        for row in section.rows:
            for each in row.measurements:
                seed, split = each.run.seed, each.seeds[1]
                sha256 = f"`{each.split_sha256[:16]}…`" if each.split_sha256 else NOTHING
                line = (f"{section.labels:,}", _or_dash(split), sha256)
                lines[f"`{cell(facts.names[each.run.path])}`", _or_dash(seed), *line] = None
    return [list(line) for line in lines]


def _or_dash(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _versions(runs: Sequence[Run], names: Names) -> list[str]:
    """Each once, with the runs where they differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        said = cell(versions(run.environment) or "not known")
        found.setdefault(said, []).append(f"`{cell(names[run.path])}`")
    most = max(found, key=lambda said: len(found[said]))
    others = [f"{said}: {', '.join(where)}" for said, where in found.items() if said != most]
    return [f"Versions: {most}{', but for' if others else '.'}", bullets(others)]
