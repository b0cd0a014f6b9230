"""A section of the page: its rows, what they differ by, published ones, and how far votes can be trusted."""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from semppl.core.counted import counted, without_endings
from semppl.core.tables import NOTHING, markdown_table, spread
from semppl.report.facts import training_seconds
from semppl.report.lenient import finite
from semppl.report.table.beside import Published
from semppl.report.table.columns import FINE_TUNED
from semppl.report.table.differences import difference_lines
from semppl.report.table.measure import Measurement
from semppl.report.table.row import Row
from semppl.report.table.sections import Section
from semppl.report.table.votes import right_shares, vote_tables
from semppl.report.text import plain

_PSEUDO: Final = "pseudo-labels right"
_NUMBER: Final = re.compile(r"[\d.,]+")
# as many names of files are said
_MANY: Final = 4


def section_parts(section: Section, published: Sequence[Published], title: str) -> list[str]:
    """Paragraphs and tables below its title."""
    parts = [f"## {title}", _data(section), _table(section), *_mixed(section)]
    parts.append(" ".join(dict.fromkeys(_unsaid(row) for row in section.rows if row.unsaid)))
    if any(row.method.kind == "supervised" for row in section.rows):
        parts.append(
            "“supervised only” is the same network from random weights, trained on these labels alone. It "
            f"stands under {FINE_TUNED}, because there, too, all weights are trained."
        )
    if any(row.method.kind == "scratch" for row in section.rows):
        parts.append(
            "“no pre-training” is the same network from random weights, trained on all images as pre-trained "
            "ones are fine-tuned; its epochs are those of that training."
        )
    parts.append(bullets(difference_lines(section)))
    if published:
        lines = [(each.name, each.epochs or NOTHING, each.top1, each.source) for each in published]
        parts.append("Published by others with as many labels, and not run here:")
        parts.append(
            markdown_table(("published", "epochs", "top-1", "source"), [cells(line) for line in lines])
        )
    if tables := vote_tables([(cell(section.called(row)), row) for row in section.rows]):
        parts.append(
            "Pseudo-labels of the last epoch by the number of ballots that agree: per cent that are right, "
            "and in brackets the per cent of images with so many; mean over seeds."
        )
        parts += tables
    return [*parts, "How the columns were measured:", bullets(_protocols(section))]


def _table(section: Section) -> str:
    columns = section.columns
    tuned = [column for column in columns if column.startswith(FINE_TUNED)]
    pseudo = [spread(right_shares(row)) for row in section.rows]
    told = any(value != NOTHING for value in pseudo)
    head = ["row", "epochs", "seeds", *columns, *([_PSEUDO] if told else []), "minutes of training"]
    head += ["of fine-tuning"] if tuned else []
    rows = []
    for row, right in zip(section.rows, pseudo, strict=True):
        line = [row.name, row.epochs, _seeds(row), *(_accuracy(row, column) for column in columns)]
        line += [right] if told else []
        line += [_training_minutes(row), *([_tuning_minutes(row, tuned)] if tuned else [])]
        rows.append(cells([*line, ", ".join(devices(row)) or NOTHING]))
    return markdown_table([*head, "device"], rows)


def _unsaid(row: Row) -> str:
    return f"“{cell(row.title)}” has {cell(', '.join(row.unsaid))} where its name says nothing else."


def _seeds(row: Row) -> str:
    """Of training; with a word where one was measured with several splits."""
    trained, splits = (len(set(seeds)) for seeds in zip(*row.seeds, strict=True))
    return f"{trained} ({splits} splits)" if len(row.seeds) > trained else str(trained)


def _accuracy(row: Row, column: str) -> str:
    """With the number of seeds where it is not the row's."""
    values = list(row.values(column).values())
    fewer = f" ({len(values)})" if 0 < len(values) < len(row.seeds) else ""
    return f"{spread(values)}{fewer}"


def _training_minutes(row: Row) -> str:
    if row.method.pretrained:
        seconds = [training_seconds(run) for run in row.runs]
    else:
        seconds = [each.seconds for each in row.measurements]
    return _minutes(seconds)


def _tuning_minutes(row: Row, columns: Sequence[str]) -> str:
    """Of each way to fine-tune, in the order of the columns."""
    if not row.method.pretrained:
        return NOTHING
    by_column: Mapping[str, list[Measurement]] = {
        column: [each for each in row.measurements if each.column == column] for column in columns
    }
    said = [_minutes([each.seconds for each in found]) for found in by_column.values() if found]
    return " / ".join(said) or NOTHING


def _minutes(seconds: Sequence[float | None]) -> str:
    known = [each for each in seconds if each is not None]
    return f"{statistics.fmean(known) / 60:.1f}" if known else NOTHING


def devices(row: Row) -> list[str]:
    """Their names, each once."""
    return list(dict.fromkeys(each.device for each in row.measurements if each.device))


def _data(section: Section) -> str:
    """Which images; other test images do not compare."""
    _, sha256 = section.data
    tests: dict[str, list[str]] = {}
    for row in section.rows:
        for each in row.measurements:
            if said := _exam(each):
                tests.setdefault(said, []).append(row.name)
    data = f"Data: {listed(section.names)}{f' (sha256 {sha256[:12]}…)' if sha256 else ''}"
    if len(tests) <= 1:
        return f"{data}{''.join(f'; {said}' for said in tests)}."
    rows = "; ".join(f"{said}: {', '.join(dict.fromkeys(names))}" for said, names in tests.items())
    return f"{data}. **Not the same test images, so these rows do not compare:** {cell(rows)}."


def _exam(of: Measurement) -> str:
    """What it was marked on, if that is a set for testing; withheld labels are others for each split."""
    test = of.evaluation.content.get("test")
    if not isinstance(test, Mapping) or test.get("kind") != "test":
        return ""
    images = finite(test.get("images"))
    return f"{counted(f'{images or 0:,.0f}', 'test image')} (sha256 {str(test.get('sha256'))[:12]}…)"


def _protocols(section: Section) -> list[str]:
    """In words, once for each column; where rows were measured in several ways, with their names."""
    lines = []
    for column in section.columns:
        words: dict[tuple[bool, str], tuple[str, dict[str, None]]] = {}
        for row in section.rows:
            for each in row.measurements:
                if each.column == column:
                    said = each.evaluation.protocol
                    kind = (row.method.pretrained, without_endings(said))
                    names = words.setdefault(kind, (said, {}))[1]
                    names[section.called(row)] = None
        several = len(words) > 1
        for said, names in words.values():
            whose = f" ({cell('; '.join(names))})" if several else ""
            lines.append(f"{column}{whose}: {cell(said.removeprefix(f'{column}: '))}")
    return lines


def _mixed(section: Section) -> list[str]:
    """Where the words of one cell, or of the rows of one column, differ in more than numbers: those of two
    versions may. Networks trained from random weights stand with the fine-tuned ones, and are another thing.
    """
    seeds, columns = [], []
    for column in section.columns:
        ways = [(row, _ways(row, column)) for row in section.rows if column in row.columns]
        seeds += [f"{section.called(row)}, {column}" for row, words in ways if len(words) > 1]
        tuned = [words for row, words in ways if row.method.pretrained]
        columns += [column] if any(words != tuned[0] for words in tuned) else []
    said = {
        "Not measured in one way, so their seeds do not compare (see below)": seeds,
        "Not measured in one way, so the rows of these columns do not compare (see below)": columns,
    }
    return [f"**{what}:** {cell('; '.join(found))}." for what, found in said.items() if found]


def _ways(row: Row, column: str) -> set[str]:
    """Protocols of a cell without their numbers."""
    found = (each.evaluation.protocol for each in row.measurements if each.column == column)
    return {_NUMBER.sub("", without_endings(words)) for words in found}


def bullets(lines: Sequence[str]) -> str:
    """A list; nothing for nothing."""
    return "\n".join(f"- {line}" for line in lines)


def listed(names: Sequence[str]) -> str:
    """Of files; of many the first ones, and how many more."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return f"{', '.join(cells(names[:_MANY]))}{more}"


def cells(values: Sequence[str]) -> list[str]:
    """Of a row."""
    return [cell(value) for value in values]


def cell(text: str) -> str:
    """A name that anybody may have chosen, in a table of Markdown."""
    return plain(text).replace("|", "\\|").replace("<", "&lt;")
