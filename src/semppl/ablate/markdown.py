"""The page of a table, and the same as data. No torch here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from semppl.ablate.curve import COLUMNS, curve_rows, gains
from semppl.ablate.files import MADE_BY
from semppl.ablate.summary import Summary, columns, directions, headline, lines
from semppl.core.tables import NOTHING, markdown_table


@dataclass(frozen=True)
class Facts:
    """What is needed to trust the numbers."""

    command: str
    configuration: Mapping[str, Any]
    """Of the cell that changes nothing, all values."""
    sha256: str
    """Of that configuration without its seed."""
    main: str
    """The same in a few words."""
    cells: Mapping[tuple[str, int], str]
    """(name of the row, seed) → the cell's folder."""
    changes: Mapping[str, str]
    """Name of the row → its flags."""
    failed: Mapping[str, str]
    """Cell → why."""
    per_class: Sequence[int] = ()
    """Rows of the table labels."""
    picture: str | None = None


def page(summary: Summary, facts: Facts) -> str:
    """Markdown."""
    table, seeds = summary.table, ", ".join(str(seed) for seed in summary.seeds)
    several = "s" if len(summary.seeds) > 1 else ""
    how = (
        "; mean ± standard deviation over seeds, differences ± their paired standard error" if several else ""
    )
    parts = [
        f"<!-- made by {MADE_BY}: the same command writes it again -->",
        f"# {table.title}",
        f"`{facts.command}` wrote this page. Accuracy in per cent, seed{several} {seeds}{how}.",
        *_numbers(summary, facts),
        f"**{_sentence(headline(summary))}**",
        _bullets(directions(summary)),
        _paper(table.where),
        _rule(len(summary.seeds), paper=bool(table.where)),
        *([_sentence(table.note)] if table.note else []),
        *_missing(summary, facts),
        "Linear accuracy of each seed:",
        markdown_table(("row", *(f"seed {seed}" for seed in summary.seeds)), _by_seed(summary)),
        f"Protocol: {'; '.join(_protocols(summary)) or NOTHING}.",
        f"Configuration (sha256 {facts.sha256[:12]}…, without its seed): {facts.main}. What each row "
        "changes, and the minutes of its cells, training and evaluation:",
        markdown_table(("row", "changes", "cells", "minutes"), _cells(summary, facts)),
        f"Versions: {'; '.join(_versions(summary)) or NOTHING}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def content(summary: Summary, facts: Facts) -> dict[str, Any]:
    """Everything on the page, and every number behind it."""
    rows = []
    for row in summary.table.rows:
        seeds = {}
        for seed in summary.seeds:
            score = summary.scores.get((row.name, seed))
            seeds[str(seed)] = None if score is None else asdict(score)
        linear = summary.difference(row, "linear")
        rows.append(
            {
                "row": row.name,
                "paper": dict(row.paper),
                "against": row.against,
                "changes": facts.changes[row.name],
                "cells": {str(seed): facts.cells[row.name, seed] for seed in summary.seeds},
                "seeds": seeds,
                "linear_difference": None if linear is None else asdict(linear),
                "verdict": None if row.against is None else str(summary.judged(row, "linear")),
            }
        )
    return {
        "made_by": MADE_BY,
        "table": summary.table.name,
        "title": summary.table.title,
        "paper": summary.table.where,
        "note": summary.table.note,
        "command": facts.command,
        "seeds": list(summary.seeds),
        "headline": headline(summary),
        "directions": directions(summary),
        "rows": rows,
        "missing": summary.missing,
        "failed": dict(facts.failed),
        "protocols": _protocols(summary),
        "configuration": dict(facts.configuration),
        "configuration_sha256": facts.sha256,
        "versions": _versions(summary),
    }


def _numbers(summary: Summary, facts: Facts) -> list[str]:
    if not facts.per_class:
        return [markdown_table(columns(summary.table), lines(summary))]
    parts = [markdown_table(COLUMNS, curve_rows(summary, facts.per_class))]
    if facts.picture is not None:
        parts.append(f"![learning curve]({facts.picture})")
    return [*parts, _sentence(gains(summary, facts.per_class))]


def _paper(where: str) -> str:
    """What its numbers are."""
    if not where:
        return ""
    return (
        f"The paper's numbers: {where}. They are top-1 on ImageNet after fine-tuning; ours are of a "
        "linear classifier and of k-NN on frozen features of other data: differences compare, values do not."
    )


def _rule(seeds: int, *, paper: bool) -> str:
    """How a verdict comes about."""
    if seeds == 1:
        return "One seed cannot tell a difference from chance: --seeds 3 adds cells and gives a verdict."
    rule = (
        "A difference counts where a one-sided t-test over paired seeds passes at 5 %, whichever side it is "
        "on, so one in ten does by chance; the others are too close to tell."
    )
    same = (
        " Differences of the paper up to 0.1 in top-1 and 1.0 in pseudo-labels count as none: so far its own "
        "unchanged cells differ."
    )
    return rule + same if paper else rule


def _missing(summary: Summary, facts: Facts) -> list[str]:
    if not summary.missing and not facts.failed:
        return []
    failed = [f"{cell} failed: {why}" for cell, why in facts.failed.items()]
    return ["Missing, so this table is not complete:", _bullets([*summary.missing, *failed])]


def _by_seed(summary: Summary) -> list[list[str]]:
    rows = []
    for row in summary.table.rows:
        values = summary.values(row.name, "linear")
        cells = [f"{values[seed]:.1f}" if seed in values else NOTHING for seed in summary.seeds]
        rows.append([row.name, *cells])
    return rows


def _cells(summary: Summary, facts: Facts) -> list[list[str]]:
    rows = []
    for row in summary.table.rows:
        scores = [summary.scores.get((row.name, seed)) for seed in summary.seeds]
        minutes = ", ".join(NOTHING if score is None else f"{score.minutes:.1f}" for score in scores)
        names = ", ".join(f"`{facts.cells[row.name, seed]}`" for seed in summary.seeds)
        changes = facts.changes[row.name]
        rows.append([row.name, f"`{changes}`" if changes else "nothing", names, minutes])
    return rows


def _protocols(summary: Summary) -> list[str]:
    return _each_once(words for score in summary.scores.values() for words in score.protocols.values())


def _versions(summary: Summary) -> list[str]:
    """Of what trained the cells: on another machine than the one that writes this, perhaps."""
    return _each_once(score.versions for score in summary.scores.values() if score.versions)


def _each_once(said: Iterable[str]) -> list[str]:
    """In the order of the rows."""
    return list(dict.fromkeys(said))


def _bullets(said: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in said)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
