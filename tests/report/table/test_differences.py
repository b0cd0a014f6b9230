import math
from dataclasses import replace

import pytest
from tests.report.table.conftest import configured, numbers, outcome

from semppl.core.paired import Difference
from semppl.report.table.differences import difference_lines, paired
from semppl.report.table.sections import sections


def test_seeds_and_splits_that_both_have_are_paired():
    found, over = paired(
        {(0, 0): 91.0, (1, 1): 94.0, (5, 5): 0.0}, {(0, 0): 90.0, (1, 1): 91.0, (2, 2): 99.0}
    )
    assert found == Difference(2.0, pytest.approx(math.sqrt(2) / math.sqrt(2)), 2)
    assert over == "2 paired seeds"


def test_one_run_measured_with_several_splits_is_paired_by_them():
    # the reference has one seed of training and two splits, once measured by two seeds
    found, over = paired({(0, 1): 90.0, (1, 2): 92.0}, {(7, 1): 80.0, (8, 1): 82.0, (7, 2): 90.0})
    assert over == "2 paired splits"
    assert found.mean == pytest.approx((9.0 + 2.0) / 2)


def test_without_a_partner_means_are_compared():
    found, over = paired({(0, 0): 90.0}, {(1, 1): 80.0, (2, 2): 84.0})
    assert (found, over) == (Difference(8.0, None, 1), "seeds that are not paired")
    assert paired({(0, None): 90.0}, {(1, None): 80.0})[1] == "seeds that are not paired"
    assert paired({}, {(0, 0): 1.0}) is None


def test_the_way_with_more_pairs_is_taken():
    ours = {(0, 0): 90.0, (1, 1): 91.0, (2, 2): 95.0}
    found, over = paired(ours, {(0, 0): 80.0, (7, 1): 80.0, (8, 2): 80.0})
    assert (found.mean, over) == (12.0, "3 paired splits"), "one pair of seeds would say +10"
    # splits that were drawn once for all seeds: one pair of splits, three of seeds
    found, over = paired({(i, 0): 90.0 + i for i in range(3)}, {(i, 0): 80.0 for i in range(3)})
    assert (found.mean, over) == (11.0, "3 paired seeds")


def test_seeds_that_nobody_knows_are_no_pair():
    assert paired({(-1, None): 90.0}, {(-1, None): 80.0})[1] == "seeds that are not paired"
    assert paired({(0, None): 90.0}, {(0, None): 80.0})[1] == "seeds that are not paired"
    assert paired({(-1, 3): 90.0}, {(-1, 3): 80.0})[1] == "1 paired split", "the labels are the same"


def rows(tmp_path, *runs):
    found = []
    for i, (value, config) in enumerate(runs):
        evaluations = {"knn": outcome(value), "linear": outcome(value + config.seed)}
        found += numbers(tmp_path / str(i), config, evaluations)
    (section,) = sections(found)
    return difference_lines(section)


def test_lines_by_hand(tmp_path):
    relic, oracle = {"positives": 0}, {"labels": "oracle"}
    lines = rows(
        tmp_path,
        (80.0, configured(seed=0, method=relic)),
        (82.0, configured(seed=1, method=relic)),
        (90.0, configured(seed=0)),
        (94.0, configured(seed=1)),
        (95.0, configured(seed=0, method=oracle)),
        (60.0, configured(seed=0, method={"labels": "given"})),
        (70.0, configured(seed=0, method={"positives": 0, "objective": "byol"})),
        (50.0, configured(seed=0, method=relic, epochs=4.0)),
    )
    assert lines == [
        "SemPPL − “ReLICv2, 10 epochs”: +11.0 ± 1.0 (k-NN), +11.0 ± 1.0 (linear); over 2 paired seeds",
        "SemPPL − “SemPPL − pseudo-labels”: +30.0 (k-NN), +30.0 (linear); over 1 paired seed",
        "“SemPPL, oracle labels” − SemPPL: +5.0 (k-NN), +5.0 (linear); over 1 paired seed",
    ], "other epochs and other objectives do not compare"


def test_columns_that_were_compared_in_other_ways_say_so(tmp_path):
    found = numbers(tmp_path / "a", configured(seed=0), {"knn": outcome(90.0), "linear": outcome(90.0)})
    found += numbers(tmp_path / "b", configured(seed=1), {"knn": outcome(92.0)})
    for seed, name in ((0, "c"), (1, "d")):
        config = configured(seed=seed, method={"positives": 0})
        found += numbers(tmp_path / name, config, {"knn": outcome(80.0), "linear": outcome(89.0)})
    (section,) = sections(found)
    assert difference_lines(section) == [
        "SemPPL − ReLICv2: +11.0 ± 1.0 (k-NN, over 2 paired seeds), +1.0 (linear, over 1 paired seed)"
    ]


def test_one_row_alone_has_no_difference(tmp_path):
    assert rows(tmp_path, (80.0, configured())) == []


def test_what_else_differs_is_said(tmp_path):
    base = configured(method={"positives": 0, "k": 7}, per_class=4)
    wide = replace(base, batch_size=32, net=replace(base.net, encoder="resnet34"))
    assert rows(tmp_path, (80.0, wide), (90.0, configured())) == [
        "SemPPL − ReLICv2: +10.0 (k-NN), +10.0 (linear); over 1 paired seed "
        "(they also differ in batch_size, net.encoder)"
    ]
    assert "also" not in rows(tmp_path / "b", (80.0, base), (90.0, configured()))[0]


def short(lines):
    """Without the linear classifier, which has the same here."""
    return [line.split(" (k-NN)")[0] for line in lines]


SAME, OTHER, RELIC = {"same_view": True}, {"same_view": False}, {"positives": 0}


def test_a_switch_is_compared_with_the_usual_row_and_with_what_has_it_too(tmp_path):
    lines = rows(
        tmp_path,
        (80.0, configured(method=RELIC | SAME)),
        (70.0, configured(method=RELIC | SAME, epochs=5.0)),
        (84.0, configured(method=RELIC | OTHER)),
        (90.0, configured(method=SAME)),
        (75.0, configured(method=SAME, epochs=5.0)),
        (91.0, configured(method=OTHER)),
        (99.0, configured(method=SAME | {"labels": "oracle"})),
    )
    assert short(lines) == [
        "“SemPPL, 5 epochs” − “ReLICv2, 5 epochs”: +5.0",
        "“SemPPL, 10 epochs” − “ReLICv2, 10 epochs”: +10.0",
        "“SemPPL, same-view False” − “ReLICv2, same-view False”: +7.0",
        "“SemPPL, oracle labels” − “SemPPL, 10 epochs”: +9.0",
        "“ReLICv2, same-view False” − “ReLICv2, 10 epochs”: +4.0",
        "“SemPPL, same-view False” − “SemPPL, 10 epochs”: +1.0",
    ]
    assert not any("also differ" in line for line in lines)


def test_a_switch_that_the_base_does_not_have_is_compared_with_the_usual_row_alone(tmp_path):
    lines = rows(
        tmp_path,
        (80.0, configured(method=RELIC)),
        (90.0, configured()),
        (75.0, configured(epochs=5.0)),
        (92.0, configured(method={"positives": 5})),
        (60.0, configured(method={"labels": "given"})),
    )
    assert short(lines) == [
        "“SemPPL, 10 epochs” − ReLICv2: +10.0",
        "“SemPPL, 10 epochs” − “SemPPL − pseudo-labels”: +30.0",
        "“SemPPL, positives 5” − “SemPPL, 10 epochs”: +2.0",
    ]


def test_without_a_usual_row_all_are_compared(tmp_path):
    base = configured(method=RELIC | SAME)
    lines = rows(tmp_path, (80.0, base), (90.0, configured(method=SAME)), (93.0, configured(method=OTHER)))
    assert short(lines) == [
        "“SemPPL, same-view True” − ReLICv2: +10.0",
        "“SemPPL, same-view False” − ReLICv2: +13.0",
    ]
    assert [line.endswith("(they also differ in method.same_view)") for line in lines] == [False, True]


def test_a_column_that_the_usual_row_lacks_is_compared_with_the_switch(tmp_path):
    found = numbers(tmp_path / "a", configured(method=RELIC | SAME), {"knn": outcome(80.0)})
    found += numbers(tmp_path / "b", configured(method=RELIC | SAME, epochs=5.0), {"knn": outcome(70.0)})
    both = {"knn": outcome(84.0), "linear": outcome(85.0)}
    found += numbers(tmp_path / "c", configured(method=RELIC | OTHER), both)
    semppl = configured(method=SAME)
    found += numbers(tmp_path / "d", semppl, {"knn": outcome(90.0), "linear": outcome(92.0)})
    (section,) = sections(found)
    assert difference_lines(section) == [
        "SemPPL − “ReLICv2, 10 epochs”: +10.0 (k-NN); over 1 paired seed",
        "SemPPL − “ReLICv2, same-view False”: +7.0 (linear); over 1 paired seed "
        "(they also differ in method.same_view)",
        "“ReLICv2, same-view False” − “ReLICv2, 10 epochs”: +4.0 (k-NN); over 1 paired seed",
    ]
