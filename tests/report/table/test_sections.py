from dataclasses import replace

import pytest
from tests.report.table.conftest import configured, numbers, outcome, sections_of

from semppl.report.table.sections import sections

RELIC = {"positives": 0}


def test_most_labels_first_and_one_run_in_several(tmp_path):
    base = {"knn": outcome(80.0), "knn-a": outcome(60.0, labels=40, name="a", labels_per_class=4)}
    few, many = configured(per_class=4), configured()
    found = sections_of(
        tmp_path,
        (few, {"knn": outcome(70.0, labels=40)}),
        (configured(method=RELIC), base),
        (many, {"knn": outcome(90.0)}),
    )
    assert [section.labels for section in found] == [4000, 40]
    assert [[row.name for row in section.rows] for section in found] == [["ReLICv2", "SemPPL"]] * 2
    assert [row.values("k-NN") for row in found[1].rows] == [{(0, 0): 60.0}, {(0, 0): 70.0}]


def test_seeds_of_a_configuration_are_one_row(tmp_path):
    (section,) = sections_of(
        tmp_path,
        (configured(seed=0), {"knn": outcome(90.0)}),
        (configured(seed=1, split_seed=3), {"knn": outcome(92.0), "linear": outcome(95.0)}),
        (configured(seed=1, split_seed=3), {"knn": outcome(93.0)}),
    )
    (row,) = section.rows
    assert row.values("k-NN") == {(0, 0): 90.0, (1, 3): 92.5}, "the same seeds count once"
    assert row.values("linear") == {(1, 3): 95.0}
    assert (row.seeds, row.epochs, len(row.runs)) == ([(0, 0), (1, 3)], "10", 3)
    assert section.columns == ["k-NN", "linear"]


def test_epochs_have_a_column(tmp_path):
    (section,) = sections_of(
        tmp_path,
        (configured(), {"knn": outcome(90.0)}),
        (configured(epochs=5.0), {"knn": outcome(80.0, step=100)}),
    )
    assert [(row.name, row.epochs) for row in section.rows] == [("SemPPL", "5"), ("SemPPL", "10")]


def test_training_with_other_labels_than_the_classifiers_is_said(tmp_path):
    (section,) = sections_of(tmp_path, (configured(per_class=4), {"linear": outcome(90.0, labels=50_000)}))
    assert section.rows[0].name == "SemPPL, trained with 40 labels"
    (section,) = sections_of(
        tmp_path / "b", (configured(method=RELIC), {"linear": outcome(90.0, labels=50_000)})
    )
    assert section.rows[0].name == "ReLICv2"


def test_labels_alone_are_a_row_whatever_the_run_learnt(tmp_path):
    content = outcome(80.0)
    content["settings"] = {"epochs": 200}
    relic = configured(seed=1, method=RELIC)
    (section,) = sections_of(
        tmp_path, (configured(), {"supervised": content}), (relic, {"supervised": content})
    )
    (row,) = section.rows
    assert (row.name, row.epochs) == ("supervised only", "200")
    assert row.values("fine-tuned") == {(0, 0): 80.0, (0, 1): 80.0}
    (section,) = sections_of(
        tmp_path / "b",
        (configured(), {"supervised": content}),
        (relic, {"supervised": outcome(70.0, epochs=5)}),
    )
    assert {row.name for row in section.rows} == {
        "supervised only, flags as usual",
        "supervised only, flags --epochs 5",
    }


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (("renamed.npz", "ab" * 32), 1),
        (("cifar.npz", ""), 1),
        (("cifar.npz", "00"), 2),
        (("else.npz", ""), 2),
    ],
)
def test_data_sets_are_known_by_their_content(tmp_path, other, count):
    one, two = (numbers(tmp_path / str(i), configured(seed=i), {"knn": outcome(9.0)})[0] for i in range(2))
    found = sections([one, replace(two, data=other)])
    assert len(found) == count
    assert found[0].data == ("cifar.npz", "ab" * 32)
