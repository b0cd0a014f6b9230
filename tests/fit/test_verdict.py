import pytest
import torch

from semppl.evaluate.exam import Exam, marked
from semppl.fit.verdict import ON_ALL, OURS, START, SUPERVISED, Row, chosen, table, verdict

EXAM = Exam("test", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)


def row(name, way, right, right_V=None, seconds=None):
    """The first `right` of 100 are right; on the validation labels those that are said to be, 1 or 0 each."""
    right_N = torch.arange(100) < right
    right_V = None if right_V is None else torch.tensor([each == "1" for each in right_V])
    return Row(name, way, marked(right_N), right_N, right_V, seconds)


def between(usual_V, other_V):
    """The way that is chosen of the usual one and another, which the test images favour in vain."""
    return chosen([row(OURS, "k-NN", 99, other_V), row(OURS, ON_ALL, 1, usual_V)]).way


def test_the_model_is_chosen_on_the_validation_labels_alone():
    rows = [
        row(OURS, "linear", 50, "0" * 10),
        row(OURS, "k-NN", 90, "1" * 5 + "0" * 5),
        row(OURS, "fine-tuned", 40, "1" * 6 + "0" * 4),
        row(SUPERVISED, "own classifier", 99, "1" * 10),
    ]
    assert chosen(rows).way == "fine-tuned", "the best of two that are better than the usual one"
    assert chosen([row(OURS, "linear", 1, "110"), row(OURS, "k-NN", 9, "110")]).way == "linear"


def test_one_label_does_not_decide():
    assert between("1" * 9 + "0", "1" * 10) == ON_ALL, "an accuracy of 10 of 10 has a standard error of 0"
    assert between("1" * 99 + "0", "1" * 100) == ON_ALL
    assert between("0", "1") == ON_ALL


def test_four_labels_without_a_loss_decide_and_three_do_not():
    # heads four times in a row: 1 / 16; three times: 1 / 8
    assert between("1" * 6 + "0" * 4, "1" * 10) == "k-NN"
    assert between("1" * 7 + "0" * 3, "1" * 10) == ON_ALL


def test_labels_that_only_the_usual_way_has_right_weigh_against_the_other():
    # five heads or more of six: (1 + 6) / 64 = 0.109; six or more of seven: (1 + 7) / 128 = 0.0625
    assert between("00000" + "1" + "1" * 4, "11111" + "0" + "1" * 4) == ON_ALL
    assert between("000000" + "1" + "1" * 3, "111111" + "0" + "1" * 3) == "k-NN"
    assert between("01" * 50, "10" * 50) == ON_ALL, "as many for one as for the other"


def test_ways_that_answer_equally_well_leave_the_usual_one():
    assert between("1" * 10, "1" * 10) == between("0" * 10, "0" * 10) == ON_ALL
    assert between("1" * 10, "0" * 10) == ON_ALL, "and so do worse ones"


def test_many_labels_tell_small_differences_apart_where_the_ways_seldom_differ():
    # a lead of 2.5 points on 1,000 labels: 30 to 5, or 250 to 225, which coins reach with 0.135
    rest = "1" * 965
    assert between("0" * 30 + "1" * 5 + rest, "1" * 30 + "0" * 5 + rest) == "k-NN"
    rest = "1" * 525
    assert between("0" * 250 + "1" * 225 + rest, "1" * 250 + "0" * 225 + rest) == ON_ALL


def test_without_the_way_on_all_images_the_linear_one_is_the_usual_one():
    rows = [row(OURS, "linear", 1, "0001"), row(OURS, "k-NN", 9, "1111")]
    assert chosen(rows).way == "linear"
    rows[1] = row(OURS, ON_ALL, 9, "0000")
    assert chosen(rows).way == ON_ALL


def test_without_validation_labels_the_linear_one_is_taken():
    rows = [row(OURS, "k-NN", 90), row(OURS, "linear", 50), row(OURS, ON_ALL, 90)]
    assert chosen(rows).way == "linear"


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
    assert row(OURS, "linear", 80, "1110", 5.0).as_json() == {
        "name": "SemPPL",
        "way": "linear",
        "accuracy": pytest.approx(80),
        "interval_95": [pytest.approx(71.1, abs=0.1), pytest.approx(86.7, abs=0.1)],
        "validation_accuracy": 75.0,
        "training_seconds": 5.0,
    }


def test_labels_of_training_prove_nothing():
    exam = Exam("training", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)
    assert verdict([row(OURS, "linear", 100), row(START, "linear", 30)], exam).startswith("Not measured")


def test_a_choice_on_the_same_labels_is_said():
    exam = Exam("validation", torch.zeros(100, 3, 1, 1), lambda answer: answer > 0)
    assert "a little too good" in verdict([row(OURS, "linear", 90), row(START, "linear", 30)], exam)
