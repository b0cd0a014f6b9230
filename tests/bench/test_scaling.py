import pytest

import semppl.bench.scaling as scaling
from semppl.bench.scaling import Size, growth, method_cost, time_scaling


def test_growth_by_hand():
    rows = [
        {"factor": "queue", "value": 10, "ms": 5.0},
        {"factor": "queue", "value": 100, "ms": 1.0},
        {"factor": "queue", "value": 400, "ms": 4.0},
        {"factor": "views", "value": 2, "ms": 1.0},
        {"factor": "views", "value": 4, "ms": 4.0},
    ]
    assert growth(rows, "queue", "ms") == pytest.approx(1.0)
    assert growth(rows, "views", "ms") == pytest.approx(2.0)
    assert growth(rows[:1], "queue", "ms") == 0.0


def test_one_factor_changes_at_a_time(tiny):
    rows = time_scaling(tiny, lambda words: None, {"batch": (4, 12), "classes": (3, 5)})
    assert [(row["factor"], row["value"]) for row in rows] == [
        ("batch", 4),
        ("batch", 12),
        ("classes", 3),
        ("classes", 5),
    ]
    assert [row["batch"] for row in rows] == [4, 12, 4, 4]
    assert all(row["queue"] == 20 and row["ms"] > 0 for row in rows)


def test_the_cost_is_that_of_queue_vote_positives_and_loss(tiny, monkeypatch):
    calls = []
    for owner, name in (
        (scaling.LabelledQueue, "push_"),
        (scaling, "vote"),
        (scaling, "sample_positives"),
        (scaling.ReLICv2, "__call__"),
    ):
        real = getattr(owner, name)

        def counted(*arguments, real=real, name=name, **options):
            calls.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)
    ms, megabytes = method_cost(Size(batch=8, queue=16, classes=2, views=2), tiny)
    assert megabytes is None
    assert calls[:4] == ["push_", "vote", "sample_positives", "__call__"]
    # one step to begin with, one for the memory, three to warm up, one timed
    assert calls == calls[:4] * 6
    assert ms > 0
