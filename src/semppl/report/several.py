"""Charts and tables of several runs in one page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from semppl.protocols.compare import differences
from semppl.report.collect import Run
from semppl.report.curves import Series, series
from semppl.report.figures import Chart, intervals, lines
from semppl.report.findings import JOURNEY, headline, results_of
from semppl.report.seeds import Difference, Group, decisive, distinguishing, group_differences, grouped, means

_SHARED: Final = (
    ("loss", "Loss", "loss/total", "loss", False),
    ("accuracy", "Accuracy of the pseudo-labels", "pseudo/accuracy", "per cent", True),
    ("knn", "k-NN accuracy on the labelled images", "knn/leave_one_out", "per cent", True),
    ("spread", "Spread of the features", "features/std", "spread", False),
)
_MOST_LINES: Final = 40
# numbers that the table has, and the picture need not
_BESIDE: Final = ("top-5", "mean per class", "calibration error")


@dataclass(frozen=True)
class Comparison:
    """What the page of several runs says about all of them together."""

    groups: Sequence[Group]
    lines: Sequence[tuple[str, str, tuple[str, ...]]]
    """(evaluation, number, a cell for each group)."""
    warnings: Sequence[str]
    settings: Sequence[tuple[str, tuple[str, ...]]]
    """Values that differ between groups."""
    without: Sequence[str]
    """Runs that have no results yet."""
    charts: Sequence[Chart]
    difference: Chart | None
    protocols: Sequence[tuple[str, str]]


def compared(runs: Sequence[Run]) -> Comparison:
    """Everything that needs more than one run."""
    groups, names = grouped(runs), titles(runs)
    values = [decisive(group.runs[0]) for group in groups]
    found = {
        run.path: results_of(run.evaluations) for run in runs if any(each.numbers for each in run.evaluations)
    }
    words: dict[str, str] = {}
    for results in found.values():
        words |= {name: said for name, said in results.protocols.items() if name not in words}
    return Comparison(
        groups=groups,
        lines=[
            (name, number, tuple("" if cell is None else str(cell) for cell in cells))
            for (name, number), cells in sorted(means(groups).items(), key=lambda item: item[0][0])
        ],
        warnings=differences(found),
        settings=[(name, tuple(each.get(name, "–") for each in values)) for name in distinguishing(values)],
        without=[names[i] for i, run in enumerate(runs) if run.path not in found],
        charts=_shared(runs, names, groups),
        difference=difference_chart(groups),
        protocols=sorted(words.items()),
    )


def titles(runs: Sequence[Run]) -> list[str]:
    """Names of the runs, or whole paths where names repeat."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def overview(runs: Sequence[Run], groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """A line for each run: name, group, seed, headline, epochs."""
    rows: list[tuple[str, ...]] = []
    for run, title in zip(runs, titles(runs), strict=True):
        group = next(group.name for group in groups if any(run is each for each in group.runs))
        best = headline(run.evaluations, run.journey)
        epochs = series(run.metrics, "loss/total").epochs
        rows.append(
            (
                title,
                group,
                "–" if run.seed is None else str(run.seed),
                "no results yet" if best is None else f"{best[1]} ({best[0]})",
                f"{epochs[-1]:.1f}" if epochs else "–",
            )
        )
    return rows


def difference_chart(groups: Sequence[Group]) -> Chart | None:
    """Later groups minus the first one, in all numbers but those that only go with an accuracy."""
    found = [each for each in group_differences(groups) if each.key[1] not in _BESIDE]
    # accuracies of results first: fits have many lines, and the picture has a limit
    shown = sorted(found, key=lambda each: each.key[0] == JOURNEY)[:_MOST_LINES]
    several = len(groups) > 2
    names = [f"{' '.join(each.key)}{f' · {each.group}' if several else ''}" for each in shown]
    paired = sum(bool(each.by_seed) for each in shown)
    left = f" {len(found) - len(shown)} more are left out." if len(found) > len(shown) else ""
    return intervals(
        "differences",
        f"Differences to {groups[0].name}",
        [(name, each.value, *_range(each)) for name, each in zip(names, shown, strict=True)],
        summary="Points of per cent: the mean, one standard deviation to both sides, and seeds as small "
        f"points. {_how(paired, len(shown))}{left}",
        x="difference in points",
        zero=True,
        extra=[list(each.by_seed.values()) for each in shown],
    )


def _range(each: Difference) -> tuple[float | None, float | None]:
    if each.deviation is None:
        return None, None
    return each.value - each.deviation, each.value + each.deviation


def _how(paired: int, count: int) -> str:
    if paired == count:
        return "Runs are paired by their seeds."
    return (
        "No seed is common, so means are compared."
        if not paired
        else f"{paired} of {count} are paired by seed."
    )


def _shared(runs: Sequence[Run], names: Sequence[str], groups: Sequence[Group]) -> list[Chart]:
    charts = []
    family = {id(run): group.name for group in groups for run in group.runs}
    families = {name: family[id(run)] for run, name in zip(runs, names, strict=True)}
    if len(groups) == 1:  # then the runs are what can be told apart
        families = {}
    for id_, title, key, y, share in _SHARED:
        curves: Mapping[str, Series] = {
            name: series(run.metrics, key) for run, name in zip(runs, names, strict=True)
        }
        chart = lines(
            f"all-{id_}", title, curves, summary=f"{title} of each run.", y=y, share=share, families=families
        )
        if chart is not None:
            charts.append(chart)
    return charts
