import json

import pytest
from tests.report.conftest import (
    BYTES_FILE,
    CLASSES,
    EVIL_FILE,
    bare_run,
    evaluation,
    measured_run,
    metrics_rows,
    write_exhibit,
    write_metrics,
)

from semppl.core.errors import UserError
from semppl.core.lock import locked
from semppl.report.collect import collect, unfinished


def said(path):
    return {gap.what: gap.command for gap in collect(path).gaps}


def test_a_whole_run_has_no_gaps(run_path):
    run = collect(run_path)
    assert run.gaps == ()
    assert (run.name, run.seed, len(run.metrics)) == ("run", 0, 20)
    assert [each.name for each in run.evaluations] == ["fit", "knn"]
    assert run.labels == dict.fromkeys(CLASSES, 4)
    assert run.roles == {"labelled": 12, "unlabelled": 80}
    assert run.predicted == {"dog": 1}
    assert run.label_next[0][0] == EVIL_FILE
    assert run.exhibit.names_T[13] == BYTES_FILE
    assert tuple(run.classes) == CLASSES


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds no run \(no config.yaml\)"):
        collect(tmp_path)


def test_a_run_that_has_just_begun(tmp_path):
    path = bare_run(tmp_path / "new run")
    assert said(path) == {
        "no training yet (no metrics.jsonl)": f"semppl pretrain --resume --out '{path}'",
        "no evaluation yet": f"semppl evaluate '{path}'",
        "no exhibit: no gallery of semantic positives and no map of the images": (
            f"semppl pretrain --resume --out '{path}'"
        ),
        "no advice on labels: which to give next, which to look at again": (
            f"semppl fit /data/photos --labels /data/labels.csv --out '{path}-fit'"
        ),
        "no environment.json: versions and machine are not known": "",
    }


def test_training_that_was_interrupted(tmp_path):
    path = bare_run(tmp_path / "run")
    (path / "fit.yaml").write_text("minutes: null")
    write_metrics(path, metrics_rows()[:9])
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 50, "epo')
    found = said(path)
    assert found["training stopped at epoch 4.5 of 10"] == f"semppl fit --resume --out {path}"
    assert found["1 line of metrics.jsonl cut off or damaged: passed over"] == ""
    assert found["no evaluation yet"] == f"semppl fit --resume --out {path}"
    (path / "metrics.jsonl").write_bytes(b"\xff\xfe\n{}\n")
    assert "no training yet (metrics.jsonl holds no line)" in said(path)
    assert "2 lines of metrics.jsonl cut off or damaged: passed over" in said(path)


def test_training_that_goes_on(tmp_path):
    path = bare_run(tmp_path / "run")
    write_metrics(path, metrics_rows()[:9])
    with locked(path):
        assert said(path)["training is going on, at epoch 4.5 of 10: make the page again later"] == ""
    assert "training stopped at epoch 4.5 of 10" in said(path)


def test_labels_of_the_test_were_not_given(tmp_path):
    path = bare_run(tmp_path / "run")
    (path / "split.csv").write_text(
        "path,label,role\na,cat,labelled\nb,cat,validation\nc,cat,test\nd,,unlabelled\n"
    )
    found = collect(path)
    assert found.labels == {"cat": 2}
    assert found.roles == {"labelled": 1, "validation": 1, "test": 1, "unlabelled": 1}


def test_the_last_step_may_end_within_an_epoch():
    # 763 steps of 128 of 1,437 images are 67.96 of 68 epochs: there is no whole step more
    assert unfinished([{"step": 763, "epoch": 67.963}], {"epochs": 68.0}) is None
    assert unfinished([{"step": 760, "epoch": 67.696}], {"epochs": 68.0}) == 68.0
    assert unfinished([{"step": 5}], {"epochs": 68.0}) is None
    assert unfinished([{"step": 5, "epoch": 1.0}], {}) is None


def test_damaged_results_name_their_command(tmp_path):
    path = measured_run(tmp_path / "run")
    (path / "evaluations" / "linear-more.json").write_text("{")
    (path / "evaluations" / "fit.json").write_text('{"protocol": "k"}')
    found = said(path)
    assert found["linear-more.json is damaged (no valid JSON)"] == (
        f"semppl evaluate {path} --protocol linear --overwrite"
    )
    assert (
        found["evaluations/fit.json is no result of ours (KeyError)"] == f"semppl fit --resume --out {path}"
    )
    assert "no evaluation yet" not in found
    without = evaluation() | {"details": {}}
    (path / "evaluations" / "knn.json").write_text(json.dumps(without))
    assert said(path)["no accuracies of single classes yet"] == f"semppl evaluate {path}"


def test_a_damaged_exhibit(tmp_path):
    path = measured_run(tmp_path / "run")
    write_exhibit(path)
    (path / "exhibit" / "exhibit.json").write_text('{"version": 1')
    assert said(path)["exhibit/exhibit.json is damaged (no valid JSON): no gallery and no map"]
    assert collect(path).exhibit is None


def test_advice_without_thumbnails(run_path):
    (run_path / "exhibit" / "advice.json").unlink()
    assert said(run_path) == {
        "no thumbnails beside the advice on labels": f"semppl fit --resume --out {run_path}"
    }
    (run_path / "exhibit" / "advice.json").write_text("[]")
    assert list(said(run_path)) == ["exhibit/advice.json is damaged (no JSON object)"]
    (run_path / "label_next.csv").write_text("path\n")
    assert "label_next.csv is damaged (no column voted)" in said(run_path)
    assert collect(run_path).label_next is None


@pytest.mark.parametrize(
    "name", ["config.yaml", "environment.json", "split.csv", "predictions.csv", "bad_files.csv"]
)
def test_any_file_may_be_nonsense(run_path, name):
    (run_path / name).write_bytes(b"\x00\xff: [")
    (gap,) = collect(run_path).gaps
    assert gap.what.startswith(f"{name} is damaged")


def test_names_of_classes_come_from_wherever_they_are_known(tmp_path):
    path = measured_run(tmp_path / "run")
    assert tuple(collect(path).classes) == CLASSES, "of the evaluation"
    (path / "evaluations" / "knn.json").unlink()
    assert tuple(collect(path).classes) == ()
    (path / "model").mkdir()
    (path / "model" / "config.json").write_text('{"classes": ["a", "b"]}')
    assert tuple(collect(path).classes) == ("a", "b")
