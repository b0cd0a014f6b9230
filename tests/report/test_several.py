import json

import pytest
from tests.report.conftest import EVIL_CLASS, bare_run, journey, measured_run, write_metrics

from semppl.report.collect import collect
from semppl.report.several import compared, difference_chart, overview, titles


@pytest.fixture
def runs(tmp_path):
    paths = [
        *(measured_run(tmp_path / f"a{seed}", 80.0 + seed, seed=seed) for seed in (0, 1)),
        *(measured_run(tmp_path / f"b{seed}", 84.0 + 3 * seed, seed=seed, method__k=5) for seed in (0, 1)),
        bare_run(tmp_path / "new", method__k=5),
    ]
    return [collect(path) for path in paths]


def test_side_by_side(runs):
    found = compared(runs)
    assert [group.name for group in found.groups][:2] == [
        "k 1, source photos (abababab)",
        "k 5, source photos (abababab)",
    ]
    assert ("knn", "top-1", ("80.5 ± 0.7 (2)", "85.5 ± 2.1 (2)", "")) in found.lines
    assert found.without == ["new"]
    assert ("method.k", ("1", "5", "5")) in found.settings
    assert found.protocols == [("knn", "k = 5; 12 labels")]
    assert found.warnings == []
    assert [chart.id for chart in found.charts] == ["all-loss", "all-accuracy", "all-knn", "all-spread"]
    assert all(len(chart.data) == 4 for chart in found.charts), "a run without metrics has no line"


def test_differences_are_drawn(runs):
    chart = compared(runs[:4]).difference
    assert chart.rows == [("knn top-1", "5", "3.586", "6.414")], "of an evaluation its first number alone"
    assert "paired by their seeds" in chart.summary
    assert list(chart.data[0]["x"]) == [4.0, 6.0], "seed by seed"
    assert difference_chart(compared(runs[:2]).groups) is None


def test_other_protocols_are_warned_of(tmp_path):
    one = collect(measured_run(tmp_path / "one"))
    other = collect(measured_run(tmp_path / "two", protocol=EVIL_CLASS, seed=1))
    assert compared([one, other]).warnings[0] == "knn: not the same protocol, so its numbers do not compare:"


def test_a_line_for_each_run(runs):
    rows = overview(runs, compared(runs).groups)
    assert [row[0] for row in rows] == ["a0", "a1", "b0", "b1", "new"]
    assert rows[0][2:] == ("0", "80.0 (76.0 to 83.0) (knn, top-1)", "10.0")
    assert rows[4][3:] == ("no results yet", "–")


def test_equal_names_are_whole_paths(tmp_path):
    same = [collect(bare_run(tmp_path / parent / "run")) for parent in ("a", "b")]
    assert titles(same) == [str(run.path) for run in same]


def test_nothing_at_all(tmp_path):
    runs = [collect(bare_run(tmp_path / name)) for name in ("a", "b")]
    write_metrics(runs[0].path, [])
    found = compared(runs)
    assert (found.lines, found.charts, found.difference) == ([], [], None)
    assert found.without == ["a", "b"]


def test_ways_of_fit_come_last_in_the_picture(tmp_path):
    paths = [measured_run(tmp_path / f"r{k}", 80.0 + k, method__k=k) for k in (1, 5)]
    for path in paths:
        (path / "evaluations" / "fit.json").write_text(json.dumps(journey()))
    chart = difference_chart(compared([collect(path) for path in paths]).groups)
    assert [row[0].split()[0] for row in chart.rows] == ["knn", *["fit"] * (len(chart.rows) - 1)]
    assert len(chart.rows) > 1
