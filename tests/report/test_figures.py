import json

import plotly.graph_objects as go
import pytest

from semppl.report.curves import Series
from semppl.report.figures import heat, intervals, lines, points, trend

EVIL = "<a href='x'>&"


def checked(chart):
    """Plotly knows each property, and the values are JSON."""
    layout = {**chart.layout, "height": chart.height}
    go.Figure(json.loads(json.dumps({"data": list(chart.data), "layout": layout})))
    return chart


def test_curves_and_their_table():
    curves = {"a": Series((1.0, 2.0), (0.25, 0.5)), EVIL: Series((2.0,), (0.75,)), "none": Series((), ())}
    chart = checked(lines("x", "t", curves, summary="s", y="per cent", share=True))
    assert [trace["name"] for trace in chart.data] == ["a", "&lt;a href='x'&gt;&amp;"]
    assert chart.data[0]["y"] == [25.0, 50.0]
    assert chart.columns == ("epoch", "a", EVIL)
    assert chart.rows == [("1.0", "25.0 %", "–"), ("2.0", "50.0 %", "75.0 %")]
    assert lines("x", "t", {"none": Series((), ())}, summary="", y="") is None


def test_a_logarithmic_axis_and_many_lines():
    curves = {str(i): Series((1.0,), (1.0,)) for i in range(20)}
    chart = checked(lines("x", "t", curves, summary="s", y="y", logarithmic=True))
    assert chart.layout["yaxis"]["type"] == "log"
    looks = {(trace["line"]["color"], trace["line"]["dash"]) for trace in chart.data}
    assert len(looks) == 20, "each can be told apart"


def test_a_family_has_one_colour_and_one_entry_in_the_legend():
    curves = {name: Series((1.0, 2.0), (0.1, 0.2)) for name in ("a0", "b0", "a1")}
    families = {"a0": "a", "a1": "a", "b0": "<b>"}
    chart = lines("id", "title", curves, summary="", y="y", families=families)
    colours = [line["line"]["color"] for line in chart.data]
    assert colours[0] == colours[2] != colours[1]
    assert [line["showlegend"] for line in chart.data] == [True, True, False]
    assert [line["name"] for line in chart.data] == ["a", "&lt;b&gt;", "a"]
    assert [line["meta"] for line in chart.data] == ["a0", "b0", "a1"]
    less = lines("id", "title", {"b0": curves["b0"]}, summary="", y="y", families=families)
    assert less.data[0]["line"]["color"] == colours[1]
    assert not less.layout["showlegend"]
    alone = lines("id", "title", curves, summary="", y="y", families=dict.fromkeys(curves, "all"))
    assert not alone.layout["showlegend"]


def test_points_and_intervals():
    chart = checked(
        points("x", "t", {"a": [(1.0, 0.5, "≥ 1")], "b": []}, summary="", x="coverage", y="accuracy")
    )
    assert chart.rows == [("a", "≥ 1", "100.0 %", "50.0 %")]
    entries = [(EVIL, 3.0, 1.0, 6.0), ("b", -1.0, None, None)]
    chart = checked(intervals("x", "t", entries, summary="", x="points", zero=True, extra=[[2.0, 4.0], []]))
    main = chart.data[-1]
    assert main["error_x"]["array"] == [3.0, 0]
    assert main["error_x"]["arrayminus"] == [2.0, 0]
    assert len(chart.data) == 2, "seeds of the first alone"
    assert chart.layout["yaxis"]["ticktext"][0].startswith("&lt;a")
    assert intervals("x", "t", [], summary="", x="") is None
    assert points("x", "t", {}, summary="", x="", y="") is None


@pytest.mark.parametrize("count", [1, 3, 60])
def test_a_heat_map_of_shares(count):
    confusion = [[3 * (i == j) + (j == 0) for j in range(count)] for i in range(count)]
    chart = checked(heat("x", "t", confusion, [EVIL] * count, summary=""))
    assert all(sum(row) == pytest.approx(100) for row in chart.data[0]["z"])
    assert chart.readout["classes"] == [EVIL] * count, "the script writes it as text"
    assert len(chart.layout["xaxis"]["ticktext"]) <= 31
    assert all("<" not in text for text in chart.layout["xaxis"]["ticktext"])


def test_a_class_that_the_exam_does_not_have():
    assert heat("x", "t", [[0, 0], [1, 1]], ["a", "b"], summary="").data[0]["z"] == [[0.0, 0.0], [50.0, 50.0]]


def test_trends_in_words():
    assert trend("loss", Series((1.0, 9.0), (4.0, 0.5))) == "loss: 4 at epoch 1.0, 0.5 at epoch 9.0."
    assert trend("k", Series((1.0,), (0.5,)), share=True) == "k: 50.0 % at epoch 1.0."
    assert trend("k", Series((), ())) == ""
