"""The page as one text: template, style, scripts and data put together. Names in it are escaped by jinja2.

Nothing is fetched: a content security policy forbids it, and lets only scripts run that are named by their
sha256. Styles are not named so, since Plotly makes some of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any, Final

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from semppl.core.counted import counted
from semppl.report.classes import class_lines, drawn_classes, most_confused
from semppl.report.collect import Run, Table
from semppl.report.facts import cost, facts, settings_table
from semppl.report.figures import Chart, heat, intervals
from semppl.report.findings import JOURNEY, Evaluation, headline
from semppl.report.gaps import Gap
from semppl.report.lenient import finite
from semppl.report.payload import charts_data, embedded, exhibit_data, sha256
from semppl.report.settings import GENERATOR
from semppl.report.several import compared, overview, titles
from semppl.report.text import percent, plain, share
from semppl.report.thumbnails import Place, Sheet, place
from semppl.report.training import collapse, feature_charts, training_charts, trust_charts, trust_table

_SCRIPTS: Final = ("charts.js", "gallery.js", "map.js")
_MOST_CLASSES: Final = 3
_TINY: Final = 32


@dataclass(frozen=True)
class Pictures:
    """What was made of the images of a run."""

    sheets: Sequence[Sheet | None] = ()
    advice: Sequence[Sheet | None] = ()
    umap_N2: NDArray[np.float32] | None = None
    gaps: Sequence[Gap] = ()


def run_page(run: Run, pictures: Pictures) -> str:
    """Of a single run."""
    evaluations = sorted((each for each in run.evaluations if each.numbers), key=_order)
    marked = [each for each in evaluations if each.confusion][:_MOST_CLASSES]
    sections = [_classes(run, each, f"confusion-{i}") for i, each in enumerate(marked)]
    training, features, trust = training_charts(run), feature_charts(run), trust_charts(run)
    accuracy = accuracy_chart(run)
    heats = [section["chart"] for section in sections]
    charts = [*training, *features, *trust, *heats, *([accuracy] if accuracy else [])]
    data: dict[str, Any] = {"charts": charts_data(charts)}
    if run.exhibit is not None:
        data["exhibit"] = exhibit_data(run.exhibit, pictures.sheets, pictures.umap_N2)
    return _rendered(
        "run.html.j2",
        run.name,
        data,
        style=_sheets("s", pictures.sheets) + _sheets("a", pictures.advice) + _sharp(run),
        run=run,
        gaps=[*run.gaps, *pictures.gaps],
        headline=headline(evaluations, run.journey),
        verdict=verdict(run),
        facts=facts(run),
        evaluations=evaluations,
        accuracy=accuracy,
        training=training,
        features=features,
        collapse=collapse(run),
        trust=trust,
        trust_table=trust_table(run),
        classes=sections,
        umap=pictures.umap_N2 is not None,
        label_next=_advised(run, run.label_next, pictures),
        suspicious=_advised(run, run.suspicious, pictures),
        cost=cost(run),
        config=settings_table(run.config),
        environment=settings_table(run.environment),
        settings_table=settings_table,
    )


def several_page(runs: Sequence[Run]) -> str:
    """Of several, side by side."""
    comparison = compared(runs)
    difference = [] if comparison.difference is None else [comparison.difference]
    name = f"{len(runs)} runs"
    return _rendered(
        "several.html.j2",
        name,
        {"charts": charts_data([*comparison.charts, *difference])},
        runs=list(zip(titles(runs), runs, strict=True)),
        comparison=comparison,
        overview=overview(runs, comparison.groups),
        facts=facts,
        cost=cost,
        headline=headline,
    )


def verdict(run: Run) -> tuple[str, str]:
    """(tone, sentence): what fit concluded, or why there is no conclusion."""
    if run.journey is not None:
        said = run.journey.verdict
        tones = {"SemPPL helped": "good", "Do not use": "bad"}
        return next((tone for start, tone in tones.items() if said.startswith(start)), "open"), said
    if any(each.numbers for each in run.evaluations):
        return (
            "open",
            "Measured, but against no baseline: semppl fit compares with training on the labels alone.",
        )
    return "open", "Not measured yet."


def accuracy_chart(run: Run) -> Chart | None:
    """The rows of fit with their intervals."""
    rows = run.journey.rows if run.journey else ()
    entries = [(f"{row.name}, {row.way}", row.number.value, row.number.low, row.number.high) for row in rows]
    return intervals(
        "accuracy", "Accuracy of each way", entries, summary="With 95 % intervals over images.", x="per cent"
    )


def _order(evaluation: Evaluation) -> tuple[bool, str]:
    """Fit first."""
    return evaluation.name != JOURNEY, evaluation.name


def _classes(run: Run, evaluation: Evaluation, chart_id: str) -> dict[str, Any]:
    confusion = evaluation.confusion or ()
    names = evaluation.classes if len(evaluation.classes) == len(confusion) else run.classes
    names = [names[i] if i < len(names) else str(i) for i in range(len(confusion))]
    drawn = drawn_classes(confusion)
    part = [[confusion[i][j] for j in drawn] for i in drawn]
    some = "" if len(drawn) == len(names) else f" The {len(drawn)} classes that are confused most."
    chart = heat(
        chart_id,
        "Confusion matrix",
        part,
        [names[i] for i in drawn],
        summary="Rows are the truth, columns the answers, in per cent of the class." + some,
    )
    return {
        "name": evaluation.name,
        "lines": class_lines(confusion, names, run.labels),
        "confused": [(names[pair.truth], names[pair.answer], pair) for pair in most_confused(confusion)],
        "chart": chart,
        "predicted": run.predicted,
    }


def _advised(
    run: Run, table: Table | None, pictures: Pictures
) -> list[tuple[tuple[str, ...], Place | None]] | None:
    """Lines of advice, each with the place of its thumbnail."""
    if table is None:
        return None
    if run.advice is None:
        return [(line, None) for line in table]
    tiles, numbers = run.advice.tiles, {name: i for i, name in enumerate(run.advice.names)}
    return [
        (line, place(numbers[line[0]], tiles, pictures.advice) if line[0] in numbers else None)
        for line in table
    ]


def _sheets(prefix: str, sheets: Sequence[Sheet | None]) -> str:
    """Each picture once, in a class of its own."""
    rules = [
        f".{prefix}{i}{{background-image:url({sheet.address});"
        f"background-size:{100 * sheet.columns}% {100 * sheet.rows}%}}"
        for i, sheet in enumerate(sheets)
        if sheet is not None
    ]
    return "\n".join(rules)


def _sharp(run: Run) -> str:
    """Tiny images are shown with their pixels, not smoothed."""
    views = run.config.get("views")
    size = finite(views.get("large_size")) if isinstance(views, Mapping) else None
    return ".tile{image-rendering:pixelated}" if size is not None and size <= _TINY else ""


def _rendered(template: str, name: str, data: Mapping[str, Any], *, style: str = "", **values: Any) -> str:
    plotly = str(import_module("plotly.offline").get_plotlyjs())
    script = "\n".join(_file(each) for each in _SCRIPTS)
    for code in (plotly, script):
        if "</script" in code.lower() or "<!--" in code:
            raise ValueError("a script that would end its element")
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {"counted": counted, "percent": percent, "share": share}
    return environment.get_template(template).render(
        generator=GENERATOR,
        title=name,
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {sha256(plotly)} "
        f"{sha256(script)}; base-uri 'none'; form-action 'none'",
        style=Markup(_file("page.css") + style),
        plotly=Markup(plotly),
        script=Markup(script),
        data=Markup(embedded(data)),
        **values,
    )


def _shown(value: Any) -> Any:
    """Whatever a template writes: no half characters, nothing invisible."""
    return value if isinstance(value, Markup) else plain(str(value))


def _file(name: str) -> str:
    return (files("semppl.report") / name).read_text(encoding="utf-8")
