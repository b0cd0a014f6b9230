import pytest
from tests.report.conftest import bare_run, metrics_rows, write_metrics

from semppl.report.collect import collect
from semppl.report.training import collapse, feature_charts, training_charts, trust_charts, trust_table


def made(path, rows):
    bare_run(path)
    write_metrics(path, rows)
    return collect(path)


def test_charts_of_a_whole_run(run_path):
    run = collect(run_path)
    assert [chart.id for chart in training_charts(run)] == ["loss", "rate"]
    assert [trace["name"] for trace in training_charts(run)[0].data] == ["total", "augmentation", "semantic"]
    assert [chart.id for chart in feature_charts(run)] == ["knn", "spread", "rank"]
    precision, recall, exchange = trust_charts(run)
    assert [trace["name"] for trace in precision.data] == [
        *(f"≥ {votes} of 4 ballots" for votes in (1, 2, 3)),
        "all 4 ballots",
    ]
    assert recall.data[3]["y"][-1] == 25.0, "a quarter of the images has all ballots, all right at the end"
    assert len(exchange.data) == 2, "ballots of training, and votes of the finished model"


def test_thresholds_at_the_end(tmp_path):
    # the last of ten lines: 20 images each with 1, …, 4 votes, of which 5, 10, 15, 20 are right
    run = made(tmp_path / "run", metrics_rows(10))
    assert trust_table(run) == [
        ("1", "62.5 %", "62.5 %", "100.0 %"),
        ("2", "75.0 %", "56.2 %", "75.0 %"),
        ("3", "87.5 %", "43.8 %", "50.0 %"),
        ("4", "100.0 %", "25.0 %", "25.0 %"),
    ]
    coverage = trust_charts(run)[2].data[0]
    assert coverage["x"] == [100.0, 75.0, 50.0, 25.0]
    assert coverage["y"] == [62.5, 75.0, 87.5, 100.0]


def test_the_page_says_of_pseudo_labels_what_a_table_of_runs_says(tmp_path):
    # the last epoch of ten is the last two of twenty lines, as in the tests of that table:
    # 5 + 10 + 14 + 19 and 5 + 10 + 15 + 20 of 80 are right
    run = made(tmp_path / "run", metrics_rows(20))
    assert trust_charts(run)[0].summary.endswith("2.5 % at epoch 0.5, 61.2 % in the last epoch.")
    assert [line[1:] for line in trust_table(run)][-1] == ("97.5 %", "24.4 %", "25.0 %")
    row = metrics_rows(20)[-1]
    assert trust_charts(made(tmp_path / "short", [row]))[0].summary.endswith(
        "All pseudo-labels: 62.5 % in the last epoch."
    )


def test_a_single_ballot(tmp_path):
    run = made(tmp_path / "run", metrics_rows(ballots=1))
    assert [trace["name"] for trace in trust_charts(run)[0].data] == ["the one ballot"]


def test_without_truth_coverage_is_drawn(tmp_path):
    run = made(tmp_path / "run", metrics_rows(known=False))
    (chart,) = trust_charts(run)
    assert chart.id == "coverage"
    assert [trace["y"][-1] for trace in chart.data] == [100.0, 75.0, 50.0, 25.0]
    assert trust_table(run) == []


def test_nothing_gives_no_chart(tmp_path):
    run = made(tmp_path / "run", [])
    assert training_charts(run) + feature_charts(run) + trust_charts(run) == []


@pytest.mark.parametrize(
    ("spread", "words"), [(0.02, "have collapsed"), (0.8, "No collapse"), (None, "not known")]
)
def test_collapse_is_said(tmp_path, spread, words):
    assert words in collapse(made(tmp_path / "run", [{"step": 1, "epoch": 1.0, "features/std": spread}]))
