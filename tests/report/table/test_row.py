from dataclasses import replace

from tests.report.table.conftest import configured, numbers, outcome, sections_of

from semppl.report.table.row import finite_epochs, known
from semppl.report.table.sections import sections


def test_a_run_whose_seed_is_not_known_is_one_of_its_own(tmp_path):
    found = [numbers(tmp_path / str(i), configured(), {"knn": outcome(90.0 + i)})[0] for i in range(2)]
    (section,) = sections([replace(each, seeds=(None, 0)) for each in found])
    assert sorted(section.rows[0].values("k-NN").values()) == [90.0, 91.0]


def test_an_unknown_seed_is_the_same_in_all_numbers_of_its_run(tmp_path):
    found = []
    for i in range(2):
        evaluations = {"knn": outcome(90.0), "knn-b": outcome(92.0, name="b"), "linear": outcome(80.0)}
        found += numbers(tmp_path / str(i), configured(), evaluations)
    (section,) = sections([replace(each, seeds=(None, 0)) for each in found])
    (row,) = section.rows
    assert sorted(row.values("k-NN").values()) == [91.0, 91.0], "one run measured twice counts once"
    assert row.values("linear").keys() == row.values("k-NN").keys()
    assert len(row.seeds) == 2
    assert not any(known(seeds) for seeds in row.seeds)


def test_the_same_seeds_measured_twice_count_once(tmp_path):
    (section,) = sections_of(
        tmp_path, *((configured(seed=0), {"knn": outcome(value)}) for value in (90.0, 93.0))
    )
    assert section.rows[0].values("k-NN") == {(0, 0): 91.5}
    assert section.rows[0].values("linear") == {}


def test_epochs_that_are_not_known_come_first(tmp_path):
    (section,) = sections_of(tmp_path, (configured(epochs=2.5), {"knn": outcome(90.0)}))
    (row,) = section.rows
    assert [finite_epochs(row), finite_epochs(replace(row, epochs="–"))] == [2.5, 0.0]


def test_a_name_is_its_title_and_what_is_said(tmp_path):
    (section,) = sections_of(tmp_path, (configured(), {"knn": outcome(90.0)}))
    row = replace(section.rows[0], begun=("init-from a",), said=("k 5", "alpha 1"))
    assert row.name == "SemPPL, init-from a, k 5, alpha 1"


def test_a_usual_row_is_one_of_the_same_title_weights_and_epochs(tmp_path):
    (section,) = sections_of(tmp_path, (configured(), {"knn": outcome(90.0)}))
    usual = replace(section.rows[0], unsaid=("k 1",))
    row = replace(usual, said=("k 5",))
    assert usual.is_usual_for(row)
    assert not row.is_usual_for(usual)
    assert not usual.is_usual_for(usual)
    assert not replace(usual, unsaid=()).is_usual_for(row), "where all say what they have, none is usual"
    for change in ({"title": "BYOL"}, {"begun": ("init-from a",)}, {"epochs": "5"}):
        assert not usual.is_usual_for(replace(row, **change))
