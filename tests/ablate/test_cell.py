import json

import pytest
from tests.ablate.stubs import finish, make_cell, metrics_row

from semppl.ablate.cell import evaluation_seconds, pseudo_accuracy, score_of, steps_done


@pytest.fixture
def cell(tmp_path):
    return make_cell(tmp_path, "default-seed0")


def test_a_cell_is_finished_once_both_evaluations_of_its_last_step_are_there(cell):
    assert cell.steps == 8
    assert score_of(cell) is None
    finish(cell, linear=51.0, knn=41.0)
    score = score_of(cell)
    assert (score.linear, score.knn, score.pseudo) == (51.0, 41.0, 75.0)
    # 8 batches of 16 at 32 images/s, and half a minute for each protocol
    assert score.minutes == pytest.approx((4 + 60) / 60)
    assert score.protocols == {"linear": "linear: of a stub", "k-NN": "knn: of a stub"}
    (cell.run.evaluations / "knn.json").unlink()
    assert score_of(cell) is None


@pytest.mark.parametrize(
    "change", [{"step": 6}, {"numbers": []}, {"numbers": None}, {"seconds": None, "step": 7}]
)
def test_a_result_of_another_step_or_without_its_number_does_not_count(cell, change):
    finish(cell)
    file = cell.run.evaluations / "linear.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert score_of(cell) is None
    file.write_text("{")
    assert score_of(cell) is None


def evaluate(cell, protocol, flags):
    """As somebody does who evaluates the cell by hand."""
    file = cell.run.evaluations / f"{protocol}.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"flags": flags(content["flags"])}))


@pytest.mark.parametrize("protocol", ["knn", "linear"])
@pytest.mark.parametrize(
    "other",
    [{"labels": "all"}, {"k": 3}, {"network": "target"}, {"seed": 1}, {"checkpoint": "x"}, {"sets": ["a"]}],
)
def test_a_result_of_other_settings_does_not_count(cell, protocol, other):
    finish(cell)
    evaluate(cell, protocol, lambda flags: flags | other)
    assert score_of(cell) is None


def test_another_machine_or_occasion_or_version_changes_nothing(cell):
    finish(cell)
    elsewhere = {"device": "cuda:1", "precision": "fp32", "workers": 7, "cache": False, "overwrite": False}
    here = {"protocol": ["knn", "finetune"], "corrupt": True, "debug": True, "compare": False}
    evaluate(cell, "knn", lambda flags: flags | elsewhere | here)
    evaluate(cell, "linear", lambda flags: {"labels": "given", "flag_of_old": 1})
    assert score_of(cell) is not None


@pytest.mark.parametrize("flags", [None, "given", []])
def test_a_result_that_does_not_say_how_it_was_measured_does_not_count(cell, flags):
    finish(cell)
    evaluate(cell, "linear", lambda _: flags)
    assert score_of(cell) is None


def test_an_evaluation_takes_as_long_as_in_finished_cells(cell, tmp_path):
    other, begun = make_cell(tmp_path, "b"), make_cell(tmp_path, "c")
    assert evaluation_seconds([cell, other, begun]) is None
    finish(cell)
    finish(other)
    finish(begun)
    (begun.run.evaluations / "knn.json").unlink()
    file = other.run.evaluations / "linear.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"seconds": 50.0}))
    assert evaluation_seconds([cell, other, begun]) == pytest.approx((60 + 80) / 2)


def test_how_far_a_cell_is(cell):
    assert steps_done(cell) == 0
    cell.path.mkdir()
    cell.run.metrics.write_text(json.dumps(metrics_row(3)) + "\n" + json.dumps(metrics_row(6)) + '\n{"st')
    assert steps_done(cell) == 6


def test_pseudo_labels_are_those_of_the_last_epoch():
    rows = [metrics_row(2, 0, 10), metrics_row(4, 6, 10), metrics_row(6, 8, 10), {"step": 8}]
    assert pseudo_accuracy(rows, epoch=4) == pytest.approx(70.0)
    assert pseudo_accuracy(rows, epoch=2) == pytest.approx(80.0)
    assert pseudo_accuracy([{"step": 8}], epoch=2) is None
    assert pseudo_accuracy([metrics_row(8, 0, 0)], epoch=2) is None
