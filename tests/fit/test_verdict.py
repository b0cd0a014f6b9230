import pytest
import torch

from semppl.evaluate.exam import Exam, marked
from semppl.fit.verdict import ON_ALL, OURS, START, SUPERVISED, Row, chosen, table, verdict

EXAM = Exam("test", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)


def row(name, way, right, validation=None, seconds=None, labels=100):
    """The first `right` of 100 are right."""
    right_N = torch.arange(100) < right
    return Row(name, way, marked(right_N), right_N, validation, labels, seconds)


def test_the_model_is_chosen_on_the_validation_labels_alone():
    rows = [
        row(OURS, "linear", 50, 60.0),
        row(OURS, "k-NN", 90, 50.0),
        row(OURS, "fine-tuned", 40, 70.0),
        row(SUPERVISED, "own classifier", 99, 99.0),
    ]
    assert chosen(rows).way == "fine-tuned"
    assert chosen([row(OURS, "linear", 1, 60.0), row(OURS, "k-NN", 9, 60.0)]).way == "linear"


def test_a_few_labels_do_not_choose_by_chance():
    # 27.5 % of 40 have a standard error of 7.1 points, of 400 one of 2.2
    rows = [row(OURS, "linear", 1, 25.0, labels=40), row(OURS, "fine-tuned", 9, 27.5, labels=40)]
    assert chosen(rows).way == "linear"
    many = [row(OURS, "linear", 1, 25.0, labels=400), row(OURS, "fine-tuned", 9, 27.5, labels=400)]
    assert chosen(many).way == "fine-tuned"
    sure = [row(OURS, "linear", 1, 25.0, labels=4), row(OURS, "k-NN", 9, 100.0, labels=4)]
    assert chosen(sure).way == "k-NN", "all of them right"


def test_the_way_on_all_images_is_the_usual_one_where_it_is_there():
    usual, linear = row(OURS, ON_ALL, 1, 90.0, labels=10), row(OURS, "linear", 9, 95.0, labels=10)
    assert chosen([linear, usual]) is usual, "5 points are less than the error of 95 % of ten labels"
    assert chosen([row(OURS, "linear", 9, 95.0, labels=1000), usual]).way == "linear"
    assert chosen([row(OURS, "linear", 9), row(OURS, ON_ALL, 9)]).way == "linear", "nothing is held out"


def test_without_validation_the_linear_one_is_taken():
    assert chosen([row(OURS, "k-NN", 90), row(OURS, "linear", 50)]).way == "linear"


def test_it_helped():
    words = verdict([row(OURS, "linear", 80), row(START, "linear", 30), row(SUPERVISED, "own", 50)], EXAM)
    assert (
        words == "SemPPL helped: 80.0 % (linear) on 100 test images, against 50.0 % by supervised only (own)"
    )


def test_it_did_not():
    words = verdict([row(OURS, "linear", 50), row(START, "k-NN", 80)], EXAM)
    assert words.startswith("Do not use this model: frozen at its start (k-NN) is better: 50.0 %")


@pytest.mark.parametrize("right", [49, 50, 51])
def test_it_cannot_be_told(right):
    words = verdict([row(OURS, "linear", right), row(START, "k-NN", 50)], EXAM)
    assert words.startswith("No clear difference")


def test_without_baselines_nothing_is_claimed():
    assert verdict([row(OURS, "linear", 50)], EXAM).endswith("no baseline was run")


def test_lines_of_the_table():
    assert table([row(OURS, "linear", 80, seconds=12.4), row(START, "linear", 80)]) == [
        ("SemPPL", "linear", "80.0 (71.1 to 86.7)", "12 s"),
        ("frozen at its start", "linear", "80.0 (71.1 to 86.7)", ""),
    ]


def test_a_row_as_json_has_no_single_answers():
    assert row(OURS, "linear", 80, 70.0, 5.0).as_json() == {
        "name": "SemPPL",
        "way": "linear",
        "accuracy": pytest.approx(80),
        "interval_95": [pytest.approx(71.1, abs=0.1), pytest.approx(86.7, abs=0.1)],
        "validation_accuracy": 70.0,
        "training_seconds": 5.0,
    }


def test_labels_of_training_prove_nothing():
    exam = Exam("training", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)
    assert verdict([row(OURS, "linear", 100), row(START, "linear", 30)], exam).startswith("Not measured")


def test_a_choice_on_the_same_labels_is_said():
    exam = Exam("validation", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)
    assert "a little too good" in verdict([row(OURS, "linear", 90), row(START, "linear", 30)], exam)
