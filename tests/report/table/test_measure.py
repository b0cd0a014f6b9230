import json

import pytest
from tests.report.conftest import metrics_rows
from tests.report.table.conftest import configured, numbers, outcome, write_run

from semppl.report.collect import collect
from semppl.report.table.measure import measured, training_labels


def test_a_number_with_all_that_belongs_to_it(tmp_path):
    (found,) = numbers(tmp_path / "r", configured(seed=2, split_seed=5), {"knn": outcome(90.0)})
    assert (found.column, found.value, found.labels, found.seconds) == ("k-NN", 90.0, 4000, 60.0)
    assert found.seeds == (2, 5)
    assert found.data == ("cifar.npz", "ab" * 32)
    assert found.device == "H200"
    assert training_labels(found) == 4000


def test_the_split_of_the_evaluation_counts_before_that_of_the_run(tmp_path):
    labels = {"count": 40, "split_sha256": "99" * 32}
    evaluations = {
        "knn-l4": outcome(90.0, labels=labels, name="l4", labels_per_class=4, split_seed=7),
        "knn": outcome(90.0),
        "linear": outcome(90.0),
    }
    del evaluations["linear"]["split_sha256"]
    other, own, early = numbers(tmp_path / "r", configured(seed=1), evaluations)
    assert (other.seeds, other.labels, other.split_sha256) == ((1, 7), 40, "99" * 32)
    assert (own.seeds, own.labels, own.split_sha256) == ((1, 1), 4000, "ef" * 32)
    assert early.split_sha256 == "12" * 32


@pytest.mark.parametrize(
    ("labels", "flags", "count"),
    [
        ({"count": 250, "used": 9}, {}, 250),
        ({"used": 250}, {}, 250),
        (None, {}, 4000),
        (None, {"labels_per_class": 4}, 40),
        (None, {"label_fraction": 0.1}, None),
        (None, {"labels": "all"}, None),
        ({"count": 50_000}, {"labels": "all"}, 50_000),
    ],
)
def test_how_many_labels_there_were(tmp_path, labels, flags, count):
    content = outcome(90.0, labels=labels)
    content["flags"] |= flags
    path = write_run(tmp_path / "r", configured(), {"knn": content})
    found, problems = measured(collect(path))
    assert [each.labels for each in found] == ([] if count is None else [count])
    assert bool(problems) == (count is None)
    if count is None:
        assert problems == ["evaluations/knn.json does not say how many labels it had: left out"]


def test_the_table_of_the_split_tells_where_nothing_else_does(tmp_path):
    path = write_run(tmp_path / "r", configured(per_class=None), {"knn": outcome(90.0, labels=None)})
    lines = ["a,0,labelled", "b,1,labelled", "c,1,validation", "d,,unlabelled", "e,1,test"]
    (path / "split.csv").write_text("\n".join(["path,label,role", *lines]))
    ((found,), _) = measured(collect(path))
    assert found.labels == 3
    (path / "split.csv").unlink()
    assert measured(collect(path))[0] == []


def test_labels_of_training_are_those_of_its_split_before_those_asked_for(tmp_path):
    path = write_run(tmp_path / "r", configured(per_class=400), {"knn": outcome(90.0)})
    ((asked,), _) = measured(collect(path))
    assert training_labels(asked) == 4000
    (path / "split.csv").write_text(
        "path,label,role\na,0,labelled\nb,1,validation\nc,1,test\nd,,unlabelled\n"
    )
    ((given,), _) = measured(collect(path))
    assert training_labels(given) == 1


@pytest.mark.parametrize(("count", "trained"), [(2, 2), (3, 3), (5, 2)])
def test_labels_held_out_were_in_training_only_for_a_classifier_that_got_them(tmp_path, count, trained):
    content = outcome(90.0, labels={"count": count})
    path = write_run(tmp_path / "r", configured(per_class=None), {"knn": content})
    lines = ["a,0,labelled", "b,1,labelled", "c,1,validation", "d,,unlabelled"]
    (path / "split.csv").write_text("\n".join(["path,label,role", *lines]))
    ((found,), _) = measured(collect(path))
    assert training_labels(found) == trained


@pytest.mark.parametrize(
    ("checkpoint", "own"),
    [
        ("{run}/checkpoints/step-100.ckpt", True),
        ("/moved/since/r/checkpoints/step-100.ckpt", True),
        ("checkpoints/last", True),
        ("{run}/../other/checkpoints/step-100.ckpt", False),
        ("runs/other/checkpoints/step-100.ckpt", False),
        ("r/else/step-100.ckpt", False),
        ("step-100.ckpt", False),
    ],
)
def test_a_checkpoint_of_elsewhere_is_no_result_of_the_run(tmp_path, checkpoint, own):
    file = checkpoint.format(run=tmp_path / "r")
    evaluations = {
        "knn-c": outcome(90.0, name="c", checkpoint=file),
        "supervised-c": outcome(50.0, name="c", checkpoint=file),
    }
    found, problems = measured(collect(write_run(tmp_path / "r", configured(), evaluations)))
    assert [each.protocol for each in found] == (["knn"] if own else []) + ["supervised"]
    said = f"evaluations/knn-c.json is of a checkpoint that is not the run's ({file}): left out"
    assert problems == ([] if own else [said])


def test_labels_alone_give_a_number_for_each_seed(tmp_path):
    content = outcome(80.0, seeds=2, seed=4)
    content["settings"] = {"seeds": [4, 5]}
    content["details"] = {"metrics": [{"top1": 0.79}, {"top1": 0.81}]}
    content["environment"] = {"device": "A100"}
    found = numbers(tmp_path / "r", configured(seed=9), {"supervised": content})
    assert [(each.seeds, each.value) for each in found] == [((4, 9), 79.0), ((5, 9), 81.0)]
    assert [each.seconds for each in found] == [30.0, 30.0]
    assert found[0].device == "A100"
    content["details"] = {"metrics": [{"top1": 0.79}]}
    (alone,) = numbers(tmp_path / "s", configured(seed=9), {"supervised": content})
    assert (alone.seeds, alone.value) == ((4, 9), 80.0)


def test_what_is_unfinished_or_of_another_step_is_left_out(tmp_path):
    evaluations = {"knn": outcome(90.0), "linear": outcome(90.0, step=40), "supervised": outcome(50.0)}
    path = write_run(tmp_path / "a", configured(), evaluations)
    found, problems = measured(collect(path))
    assert [each.protocol for each in found] == ["knn", "supervised"]
    assert problems == ["evaluations/linear.json is of step 40 of 100: left out"]
    path = write_run(tmp_path / "b", configured(), evaluations, rows=metrics_rows()[:9])
    found, problems = measured(collect(path))
    assert [each.protocol for each in found] == ["supervised"], "it needs no training of the run"
    assert problems[0] == "evaluations/knn.json is of a training that is not finished: left out"
    (path / "metrics.jsonl").unlink()
    assert len(measured(collect(path))[0]) == 3, "without metrics nobody knows"


def test_results_without_a_column_are_named(tmp_path):
    evaluations = {"corruptions": outcome(1.0), "knn": outcome(1.0) | {"numbers": []}}
    _, problems = measured(collect(write_run(tmp_path / "a", configured(), evaluations)))
    assert problems == ["no column is for evaluations/corruptions.json, evaluations/knn.json: left out"]


def test_odd_files_are_no_reason_to_fail(tmp_path):
    content = outcome(90.0) | {"flags": 3, "labels": [], "environment": "x", "seconds": "long", "step": None}
    path = write_run(tmp_path / "a", configured(), {"knn": content})
    (path / "environment.json").write_text(json.dumps({"device": None}))
    (path / "split.sha256").write_text("")
    ((found,), problems) = measured(collect(path))
    assert (found.labels, found.seconds, found.device, problems) == (4000, None, "", [])
