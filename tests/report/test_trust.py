import math

from semppl.core.trust import Trust
from semppl.report.trust import coverage_over_training, last_epoch, right_share, trust_over_training


def line(epoch, right, known):
    return {"step": 1, "epoch": epoch, "pseudo/right_by_votes": right, "pseudo/known_by_votes": known}


def test_precision_recall_and_coverage_by_hand():
    # two ballots: 6 images with one vote (2 right), 4 with both (3 right)
    found = trust_over_training([line(1.0, [0, 2, 3], [0, 6, 4])])
    (both,) = found.lines
    assert [(t.votes, t.precision, t.recall, t.coverage) for t in both] == [
        (1, 0.5, 0.5, 1.0),
        (2, 0.75, 0.3, 0.4),
    ]
    assert found.at_the_end == both
    assert found.ballots == 2


def test_counts_of_a_bin_are_added_and_not_averaged():
    rows = [line(1.0, [0, 1], [0, 1]), line(2.0, [0, 0], [0, 9])]
    found = trust_over_training(rows, most=1)
    assert found.epochs == (2.0,)
    assert found.lines[0][0].precision == 0.1, "a mean of the precisions would be one half"


def test_the_end_is_the_last_epoch():
    # 10 steps an epoch, a line after each 5: of a last line alone 6 of 10 would be right
    rows = [line(i / 2, [0, 0, 0], [0, 5, 5]) | {"step": 5 * i} for i in range(1, 19)]
    rows += [line(9.5, [0, 1, 3], [0, 8, 2]) | {"step": 95}, line(10.0, [0, 1, 5], [0, 2, 8]) | {"step": 100}]
    assert trust_over_training(rows).at_the_end == (Trust(1, 0.5, 0.5, 1.0), Trust(2, 0.8, 0.4, 0.5))
    assert right_share(rows) == 50.0


def test_an_end_of_which_nothing_is_known():
    found = trust_over_training([line(1.0, [0, 0, 0], [0, 0, 0])])
    assert (found.at_the_end, found.ballots) == ((), 2)
    assert right_share([line(1.0, [0, 0], [0, 0])]) is None


def test_a_threshold_that_nobody_reaches_has_no_precision():
    found = trust_over_training([line(1.0, [0, 1, 0], [0, 2, 0])])
    assert math.isnan(found.lines[0][1].precision)
    assert found.lines[0][1].coverage == 0


def test_lines_that_do_not_fit_are_passed_over():
    good = line(2.0, [0, 1, 1], [0, 1, 1])
    odd = [
        line(1.0, [0, 1], [0, 1]),
        line(1.0, [0, 1, 1], [0, 1]),
        line(1.0, "x", [0, 1, 1]),
        line(1.0, [0, -1, 1], [0, 1, 1]),
        line(None, [0, 1, 1], [0, 1, 1]),
        {"step": 3},
    ]
    assert trust_over_training([*odd, good]).epochs == (2.0,)
    assert trust_over_training(odd[1:]) is None
    assert trust_over_training([line(1.0, [1], [1])]) is None, "no ballot, no threshold"


def test_without_truth_there_is_coverage():
    rows = [{"step": 1, "epoch": 1.0, "pseudo/votes": [1, 3, 6]}]
    assert trust_over_training(rows) is None
    assert [t.coverage for t in coverage_over_training(rows).lines[0]] == [0.9, 0.6]


def test_counts_of_the_last_epoch():
    rows = [line(epoch / 2, [0, 1, epoch], [0, 9, 9]) | {"step": 5 * epoch} for epoch in range(1, 7)]
    # 10 steps an epoch: steps 25 and 30
    assert last_epoch(rows) == ([0, 2, 11], [0, 18, 18])
    odd = [{**rows[-1], "step": "30"}, line(1.0, [0, 1], [0, 1]), {"step": 3}]
    assert last_epoch([*odd, *rows]) == ([0, 2, 11], [0, 18, 18])
    assert last_epoch([line(5e-324, [0, 1], [0, 2])]) == ([0, 1], [0, 2]), "an epoch of endless steps"
    assert last_epoch([line(-5e-324, [0, 1], [0, 2])]) == ([0, 1], [0, 2])
    assert last_epoch([]) is None
    assert last_epoch([line(1.0, [0, 0], [0, 0])]) is None, "nothing is known"
