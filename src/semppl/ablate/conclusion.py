"""What is written and shown of a table, with the cells that are finished."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from semppl.ablate.cell import Score
from semppl.ablate.curve import NARROW as NARROW_CURVE
from semppl.ablate.curve import SPARE as SPARE_CURVE
from semppl.ablate.curve import curve_rows, draw_curve, gains
from semppl.ablate.files import TableFiles
from semppl.ablate.markdown import Facts, content, page
from semppl.ablate.narrow import narrowed
from semppl.ablate.plan import Plan
from semppl.ablate.settings import AblateFlags, labels_per_class
from semppl.ablate.summary import SPARE, Summary, directions, headline, narrow_columns, narrow_lines
from semppl.config import Config
from semppl.core.by_labels import NO_PICTURE
from semppl.core.counted import counted
from semppl.differing import decisive, digest_of
from semppl.report.table.flags import setting_words
from semppl.report.table.portable import everywhere
from semppl.train.progress import print_table


def conclude(
    plan: Plan,
    scores: Mapping[str, Score],
    flags: AblateFlags,
    files: TableFiles,
    console: Console,
    command: str,
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """A table with what there is, on the console and as files; nothing where it has no score. `scores` and
    `failed` go by cell.
    """
    found = {key: scores[cell.name] for key, cell in plan.grid.items() if cell.name in scores}
    summary = Summary(plan.table, plan.seeds, found)
    per_class = labels_per_class(flags) if plan.table.name == "labels" else ()
    drawn = bool(per_class and found) and draw_curve(summary, per_class, files.picture)
    facts = Facts(
        command=command,
        configuration=everywhere(asdict(plan.base)),
        sha256=digest_of(plan.base),
        main=main_values(plan.base),
        cells={key: cell.name for key, cell in plan.grid.items()},
        changes={row.name: _changes(plan, row.name) for row in plan.table.rows},
        failed={cell.name: failed[cell.name] for cell in plan.cells if cell.name in failed},
        per_class=per_class,
        picture=files.picture.name if drawn else None,
    )
    everything = content(summary, facts)
    if found:
        show(summary, per_class, console)
        files.write(page(summary, facts), everything)
        console.print(f"written: {files.page} and {files.data.name}", highlight=False, soft_wrap=True)
        if per_class and not drawn:
            console.print(NO_PICTURE, highlight=False, markup=False, soft_wrap=True)
    return everything


def show(summary: Summary, per_class: tuple[int, ...], console: Console) -> None:
    """The table, as wide as the console allows, and what it says."""
    if per_class:
        shown = narrowed(NARROW_CURVE, curve_rows(summary, per_class), SPARE_CURVE, console.width)
    else:
        shown = narrowed(narrow_columns(summary.table), narrow_lines(summary), SPARE, console.width)
    print_table(console, summary.table.title, *shown)
    said = [*directions(summary), *([gains(summary, per_class)] if per_class else []), headline(summary)]
    for line in said:
        console.print(line, highlight=False, soft_wrap=True)


def _changes(plan: Plan, row: str) -> str:
    """What a row changes, as flags."""
    base, config = (decisive(each) for each in (plan.base, plan.grid[row, plan.seeds[0]].config))
    changed = [name for name in base if base[name] != config[name]]
    return shlex.join(word for name in changed for word in setting_words(name, config[name]))


def main_values(base: Config) -> str:
    """A configuration in a few words."""
    data, views, method = base.data, base.views, base.method
    labels = [
        f"{counted(data.labels_per_class, 'label')} per class" if data.labels_per_class is not None else "",
        f"{data.label_fraction:.3g} of the labels" if data.label_fraction is not None else "",
    ]
    parts = [
        Path(base.source).name,
        *(words for words in labels if words),
        f"{counted(f'{base.epochs:.4g}', 'epoch')} of batches of {base.batch_size}",
        f"{base.net.encoder}, width {base.net.width:g}",
        f"{views.large} + {views.small} views of {views.large_size} and {views.small_size} px",
        f"{method.objective}, {counted(method.positives, 'positive')}, k = {method.k}, "
        f"queue {method.queue_capacity:,}, "
        f"α = {method.alpha:g}, votes at least {method.minimum_votes} of {base.num_ballots}",
        f"{base.optim.name}, rate {base.optim.base_lr:g} · batch / 256",
    ]
    return "; ".join(parts)
