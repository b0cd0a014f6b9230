"""Charts as values that Plotly reads: lines, intervals, a heat map. Colours of the page come from its style.

Each chart says in words what it shows, and has its numbers as a table beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from semppl.report.curves import Series, bins
from semppl.report.text import for_plotly, number, percent

# to be told apart on light and on dark, and by those who see fewer colours
PALETTE: Final = ("#3b82c4", "#e0703a", "#2f9e77", "#b05fc0", "#c79a1e", "#d1507f", "#6b7fd7", "#8a8f98")
# from few ballots to all
SCALE: Final = ("#e0a030", "#dd7048", "#c2517a", "#8d57a6", "#4f6bc4")
SQUARE: Final = {"scaleanchor": "x", "constrain": "domain"}
_DASHES: Final = ("solid", "dash", "dot")
_ROWS: Final = 24
_CELLS_WITH_TEXT: Final = 12


@dataclass(frozen=True)
class Chart:
    """A picture, its words and its numbers."""

    id: str
    title: str
    summary: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    height: int = 300
    wide: bool = False
    readout: Mapping[str, Any] = field(default_factory=dict)
    """What the script says of a point under the pointer."""


def lines(
    id: str,  # noqa: A002 - as the page calls it
    title: str,
    curves: Mapping[str, Series],
    *,
    summary: str,
    y: str,
    scale: Sequence[str] = PALETTE,
    share: bool = False,
    logarithmic: bool = False,
    families: Mapping[str, str] | None = None,
) -> Chart | None:
    """Curves over epochs; None where there is nothing to draw.

    Those of a family have one colour, and one entry in the legend.
    """
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None
    factor = 100 if share else 1
    family_of = {name: (families or {}).get(name, name) for name in curves}
    # also those without a curve here: a family looks the same in all charts
    order = list(dict.fromkeys([*(families or {}).values(), *family_of.values()]))
    data = []
    for name, curve in curves.items():
        family = family_of[name]
        i, first = order.index(family), next(each for each in curves if family_of[each] == family)
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(curve.values) > 1 else "markers",
                "name": for_plotly(family),
                "legendgroup": for_plotly(family),
                "showlegend": name == first,
                "meta": for_plotly(name),
                "hovertemplate": "%{meta}: %{y:.4~g}<extra></extra>",
                "x": [_short(epoch) for epoch in curve.epochs],
                "y": [_short(factor * value) for value in curve.values],
                "line": {"color": scale[i % len(scale)], "width": 2, "dash": _DASHES[i // len(scale) % 3]},
            }
        )
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "epoch"}},
        "yaxis": {"title": {"text": y}, "rangemode": "tozero" if share else "normal"},
        "hovermode": "x unified",
        "showlegend": len(set(family_of.values())) > 1,
    }
    if logarithmic:
        layout["yaxis"]["type"] = "log"
    columns, rows = _table(curves, share=share)
    return Chart(id, title, summary, data, layout, columns, rows)


def trend(name: str, curve: Series, *, share: bool = False) -> str:
    """From where to where, in words."""
    if not curve:
        return ""
    said = percent if share else number
    if len(curve.values) == 1:
        return f"{name}: {said(curve.values[0])} at epoch {curve.epochs[0]:.1f}."
    return (
        f"{name}: {said(curve.values[0])} at epoch {curve.epochs[0]:.1f}, "
        f"{said(curve.values[-1])} at epoch {curve.epochs[-1]:.1f}."
    )


def points(
    id: str,  # noqa: A002
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float, str]]],
    *,
    summary: str,
    x: str,
    y: str,
) -> Chart | None:
    """(share, share, what it is) as points on a line, in per cent."""
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": for_plotly(name),
            "x": [_short(100 * point[0]) for point in curve],
            "y": [_short(100 * point[1]) for point in curve],
            "text": [for_plotly(point[2]) for point in curve],
            "hovertemplate": f"%{{text}}<br>{x} %{{x:.1f}} %<br>{y} %{{y:.1f}} %<extra></extra>",
            "line": {"color": PALETTE[i], "width": 2},
            "marker": {"size": 8},
        }
        for i, (name, curve) in enumerate(curves.items())
    ]
    layout = {
        "xaxis": {"title": {"text": f"{x}, per cent"}, "range": [0, 103]},
        "yaxis": {"title": {"text": f"{y}, per cent"}},
        "hovermode": "closest",
        "showlegend": len(curves) > 1,
    }
    rows = [
        (name, point[2], percent(point[0]), percent(point[1]))
        for name, curve in curves.items()
        for point in curve
    ]
    return Chart(id, title, summary, data, layout, ("curve", "threshold", x, y), rows)


def intervals(
    id: str,  # noqa: A002
    title: str,
    entries: Sequence[tuple[str, float, float | None, float | None]],
    *,
    summary: str,
    x: str,
    zero: bool = False,
    extra: Sequence[Sequence[float]] = (),
) -> Chart | None:
    """(name, value, low, high) from top to bottom; `extra`: single values behind each, as small points."""
    if not entries:
        return None
    places = list(range(len(entries)))
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [_short(value) for value in each],
            "y": [place] * len(each),
            "marker": {"size": 6, "color": PALETTE[7], "opacity": 0.7},
            "hovertemplate": "one seed: %{x:.2f}<extra></extra>",
        }
        for place, each in zip(places, extra, strict=False)
        if each
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [_short(value) for _, value, _, _ in entries],
            "y": places,
            "text": [for_plotly(name, 60) for name, *_ in entries],
            "hovertemplate": "%{text}: %{x:.2f}<extra></extra>",
            "marker": {"size": 11, "color": PALETTE[0]},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [0 if high is None else _short(high - value) for _, value, _, high in entries],
                "arrayminus": [0 if low is None else _short(value - low) for _, value, low, _ in entries],
                "color": PALETTE[0],
                "thickness": 2,
                "width": 5,
            },
        }
    )
    layout = {
        "xaxis": {"title": {"text": x}, "zeroline": zero, "rangemode": "tozero" if zero else "normal"},
        "yaxis": {
            "tickvals": places,
            "ticktext": [for_plotly(name, 34) for name, *_ in entries],
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "hovermode": "closest",
        "showlegend": False,
    }
    rows = [(name, number(value), number(low), number(high)) for name, value, low, high in entries]
    columns = ("", "value", "low", "high")
    return Chart(id, title, summary, data, layout, columns, rows, height=90 + 34 * len(entries), wide=True)


def heat(
    id: str,  # noqa: A002
    title: str,
    confusion: Sequence[Sequence[int]],
    classes: Sequence[str],
    *,
    summary: str,
) -> Chart:
    """Truth by answers, each row as shares of the class; the script names the cell under the pointer."""
    shares = [[_short(100 * count / max(sum(row), 1)) for count in row] for row in confusion]
    count = len(confusion)
    few, every = count <= _CELLS_WITH_TEXT, max(count // 30, 1)
    ticks = list(range(0, count, every))
    axis = {
        "tickvals": ticks,
        "ticktext": [for_plotly(classes[i], 16) for i in ticks],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "z": shares,
            "showscale": not few,
            **({"texttemplate": "%{z:.0f}"} if few else {}),
            "zmin": 0,
            "zmax": 100,
            "hoverinfo": "none",
            "colorbar": {"title": {"text": "%"}, "thickness": 12, "outlinewidth": 0},
            "xgap": 1 if count <= 30 else 0,
            "ygap": 1 if count <= 30 else 0,
        }
    ]
    layout = {
        "xaxis": {**axis, "title": {"text": "answer"}, "tickangle": -45, "constrain": "domain"},
        "yaxis": {**axis, "title": {"text": "truth"}, "autorange": "reversed", **SQUARE},
        "hovermode": "closest",
    }
    readout = {"kind": "confusion", "classes": list(classes), "counts": [list(row) for row in confusion]}
    height = max(min(200 + 26 * count, 720), 360)
    return Chart(id, title, summary, data, layout, height=height, wide=True, readout=readout)


def _short(value: float) -> float:
    """Six digits are more than a screen has."""
    return float(f"{value:.6g}")


def _table(curves: Mapping[str, Series], *, share: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Some epochs of all curves; those of the longest one lead."""
    longest = max(curves.values(), key=lambda curve: len(curve.epochs))
    places = [part.stop - 1 for part in bins(len(longest.epochs), _ROWS)]
    said = percent if share else number
    rows = []
    for place in places:
        epoch = longest.epochs[place]
        cells = [said(_at(curve, epoch)) for curve in curves.values()]
        rows.append((f"{epoch:.1f}", *cells))
    return ("epoch", *curves), rows


def _at(curve: Series, epoch: float) -> float | None:
    """The last value until then."""
    known = [value for at, value in zip(curve.epochs, curve.values, strict=True) if at <= epoch + 1e-9]
    return known[-1] if known else None
