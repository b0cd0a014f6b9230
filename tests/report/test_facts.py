import json

import pytest
from tests.report.conftest import bare_run, measured_run, whole_run

from semppl.report.collect import collect
from semppl.report.facts import cost, facts, settings_table, training_seconds


def test_what_it_was(run_path):
    assert dict(facts(collect(run_path))) == {
        "data": "/data/photos",
        "images": "92, 12 with a label to learn from",
        "classes": "3",
        "epochs": "10.0 of 10",
        "seed": "0",
    }


def test_what_it_cost(tmp_path):
    path = measured_run(tmp_path / "run")
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "step-1.ckpt").write_bytes(b"x" * 2_000_000)
    run = collect(path)
    assert training_seconds(run) == pytest.approx(100 * 16 / 1000), "100 steps of 16 images at 1,000 a second"
    found = dict(cost(run))
    assert found["pre-training"] == "about 2 s"
    assert found["waiting for data"] == "2.0 %"
    assert found["checkpoints on disk"] == "2.0 MB"


def test_ways_that_were_trained_say_how_long(tmp_path):
    path = whole_run(tmp_path / "run")
    file = path / "evaluations" / "fit.json"
    content = json.loads(file.read_text())
    content["rows"].append(
        {**content["rows"][0], "way": "fine-tuned on all images", "training_seconds": 90.0}
    )
    file.write_text(json.dumps(content))
    found = dict(cost(collect(path)))
    assert found["SemPPL, fine-tuned on all images"] == "1 min 30 s"
    assert found["supervised only, own head"] == "45 s"
    assert "SemPPL, linear" not in found


def test_of_nothing_nothing_is_known(tmp_path):
    run = collect(bare_run(tmp_path / "run"))
    assert training_seconds(run) is None
    assert cost(run) == []


def test_settings_by_dotted_names():
    assert settings_table({"a": {"b": None, "c": [1, 2]}, "d": "x"}) == [
        ("a.b", "–"),
        ("a.c", "[1, 2]"),
        ("d", "x"),
    ]
