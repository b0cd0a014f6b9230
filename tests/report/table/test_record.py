import json

import pytest
from tests.report.conftest import metrics_rows, whole_run, write_metrics
from tests.report.table.conftest import configured, long_rows, outcome, write_run

from semppl.core.rundir import KEPT
from semppl.report.collect import collect
from semppl.report.facts import cost, training_seconds
from semppl.report.table.record import is_record, kept_roles, same_run, strangers, write_record


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def recorded(run, folder):
    folder.mkdir(parents=True)
    write_record(collect(run), folder)
    return folder


def run_of(path, *, seed=0, speed=1000.0, **changes):
    rows = [row | {"images_per_second": speed} for row in metrics_rows(5)]
    return write_run(path, configured(seed=seed, **changes), {"knn": outcome(90.0)}, rows=rows)


def test_what_a_table_needs_and_no_more(run_path, tmp_path):
    write_metrics(run_path, metrics_rows(500))
    for name in ("split.sha256", "started_from.json", "events.out.tfevents.1", "evaluations/knn.txt"):
        (run_path / name).write_text(f"{name}\n")
    for name in ("checkpoints", "features"):
        (run_path / name).mkdir()
        (run_path / name / "large").write_bytes(bytes(1000))
    before = files(run_path)
    found = files(recorded(run_path, tmp_path / "kept"))
    assert sorted(found) == [
        *("config.yaml", "environment.json", "evaluations/fit.json", "evaluations/knn.json", "fit.yaml"),
        *("kept.json", "metrics.jsonl", "split.sha256", "started_from.json"),
    ]
    whole = [name for name in found if name not in (KEPT, "metrics.jsonl")]
    assert all(found[name] == before[name].replace(b"/data/", b"") for name in whole), "but for folders"
    lines = found["metrics.jsonl"].splitlines()
    assert set(lines) < set(before["metrics.jsonl"].splitlines())
    assert json.loads(found[KEPT]) == {
        "kept_by": "semppl report --keep",
        "lines_of_metrics": {"kept": len(lines), "of": 500},
        "training_seconds": 40.0,
        "roles": {"labelled": 12, "unlabelled": 80},
    }
    assert files(run_path) == before


def test_a_record_of_a_record_is_the_same(tmp_path):
    run = whole_run(tmp_path / "run")
    write_metrics(run, long_rows(0, epochs=4.0))
    first = recorded(run, tmp_path / "a")
    assert files(recorded(first, tmp_path / "b")) == files(first)
    assert len((first / "metrics.jsonl").read_text().splitlines()) > 100, "as more than 60 could be thinned"


def test_how_long_training_took_is_known_from_all_lines(tmp_path):
    rows = [
        row | {"images_per_second": 100.0 if i % 7 else 10.0}
        for i, row in enumerate(long_rows(0, epochs=50.0))
    ]
    run = write_run(tmp_path / "run", configured(), {"knn": outcome(90.0)}, rows=rows)
    expected = training_seconds(collect(run))
    record = recorded(run, tmp_path / "kept")
    assert training_seconds(collect(record)) == pytest.approx(expected, abs=0.05)
    assert dict(cost(collect(record)))["pre-training"] == dict(cost(collect(run)))["pre-training"]
    mark = json.loads((record / KEPT).read_text())
    del mark["training_seconds"]
    (record / KEPT).write_text(json.dumps(mark))
    about = training_seconds(collect(record))
    assert 1 < abs(about - expected) < expected / 10, "as good as one of an earlier version knows it"


def test_a_run_without_speed_has_no_time(tmp_path):
    rows = [
        {key: value for key, value in row.items() if key != "images_per_second"} for row in metrics_rows(5)
    ]
    run = write_run(tmp_path / "run", configured(), {"knn": outcome(90.0)}, rows=rows)
    record = recorded(run, tmp_path / "kept")
    assert "training_seconds" not in json.loads((record / KEPT).read_text())
    assert training_seconds(collect(run)) is None
    assert training_seconds(collect(record)) is None


def test_a_matrix_of_very_many_classes_is_left_out(tmp_path):
    run = write_run(tmp_path / "run", configured(), {"knn": outcome(90.0)})
    content = outcome(90.0) | {"details": {"metrics": {"top1": 0.9, "confusion": [[0] * 300] * 300}}}
    (run / "evaluations" / "linear.json").write_text(json.dumps(content))
    found = files(recorded(run, tmp_path / "kept"))
    assert json.loads(found["evaluations/linear.json"]) == content | {"details": {"metrics": {"top1": 0.9}}}
    assert json.loads(found["evaluations/knn.json"]) == outcome(90.0)


def test_a_run_that_has_just_begun(tmp_path):
    run = write_run(tmp_path / "run", configured(), {})
    for name in ("metrics.jsonl", "environment.json", "split.sha256"):
        (run / name).unlink()
    assert sorted(files(recorded(run, tmp_path / "kept"))) == ["config.yaml", "kept.json"]


def test_only_the_mark_makes_a_record(tmp_path):
    run = run_of(tmp_path / "run")
    assert not is_record(run)
    assert not is_record(tmp_path / "none")
    kept = recorded(run, tmp_path / "kept")
    assert is_record(kept)
    for mark in ("{", "{}", "[]", '{"kept_by": "me"}'):
        (run / KEPT).write_text(mark)
        assert not is_record(run)
    (kept / "config.yaml").unlink()
    assert not is_record(kept)


def test_roles_of_the_split(tmp_path):
    path = whole_run(tmp_path / "run")
    assert kept_roles(path) == {}
    kept = recorded(path, tmp_path / "kept")
    assert kept_roles(kept) == dict(collect(path).roles) == {"labelled": 12, "unlabelled": 80}
    for roles, found in ((["labelled"], {}), ({"labelled": 3, "test": "many"}, {"labelled": 3})):
        (kept / KEPT).write_text(json.dumps({"roles": roles}))
        assert kept_roles(kept) == found


def test_what_somebody_has_put_into_a_record(tmp_path):
    kept = recorded(run_of(tmp_path / "run"), tmp_path / "kept")
    assert strangers(kept) == []
    (kept / "evaluations" / "linear.json").write_text("{}")
    assert strangers(kept) == [], "as a later state of the run may have it"
    (kept / "evaluations" / "deep").mkdir()
    for name in ("notes.md", "evaluations/x.csv", "evaluations/deep/y.json", "x.json"):
        (kept / name).write_text("mine")
    (kept / "link").symlink_to(tmp_path)
    assert strangers(kept) == ["evaluations/deep/y.json", "evaluations/x.csv", "link", "notes.md", "x.json"]


def test_a_run_of_which_nothing_but_the_folder_of_its_data_is_known_is_its_own_copy(tmp_path):
    run = run_of(tmp_path / "run", source="/data/cifar.npz")
    (run / "environment.json").unlink()
    assert same_run(collect(run), collect(recorded(run, tmp_path / "kept")))
    other = run_of(tmp_path / "other", source="/data/other.npz")
    (other / "environment.json").unlink()
    assert not same_run(collect(other), collect(tmp_path / "kept"))


def test_states_of_one_run(tmp_path):
    run = run_of(tmp_path / "run")
    kept = collect(recorded(run, tmp_path / "kept"))
    write_metrics(run, [*metrics_rows(5), *metrics_rows(9)[5:]])
    (run / "evaluations" / "knn.json").unlink()
    assert same_run(collect(run), kept), "that went on, or was measured again"
    machine = collect(run_of(tmp_path / "machine", device="cuda", log_every=3))
    assert same_run(machine, kept), "that went on elsewhere"
    for i, other in enumerate(({"seed": 1}, {"epochs": 3.0}, {"speed": 999.9})):
        assert not same_run(collect(run_of(tmp_path / str(i), **other)), kept), other
    (run / "metrics.jsonl").unlink()
    assert same_run(collect(run), kept)
