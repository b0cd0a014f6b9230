from dataclasses import replace

import pytest
from tests.report.table.conftest import configured, numbers, outcome, write_run

from semppl.report.collect import collect
from semppl.report.table.measure import measured
from semppl.report.table.sections import known, sections


def made(tmp_path, *runs):
    """Sections of (configuration, evaluations) each."""
    found = []
    for i, (config, evaluations) in enumerate(runs):
        found += numbers(tmp_path / str(i), config, evaluations)
    return sections(found)


RELIC = {"positives": 0}


def test_most_labels_first_and_one_run_in_several(tmp_path):
    base = {"knn": outcome(80.0), "knn-a": outcome(60.0, labels=40, name="a", labels_per_class=4)}
    few, many = configured(per_class=4), configured()
    found = made(
        tmp_path,
        (few, {"knn": outcome(70.0, labels=40)}),
        (configured(method=RELIC), base),
        (many, {"knn": outcome(90.0)}),
    )
    assert [section.labels for section in found] == [4000, 40]
    assert [[row.name for row in section.rows] for section in found] == [["ReLICv2", "SemPPL"]] * 2
    assert [row.values("k-NN") for row in found[1].rows] == [{(0, 0): 60.0}, {(0, 0): 70.0}]


def test_seeds_of_a_configuration_are_one_row(tmp_path):
    (section,) = made(
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


def test_rows_say_with_which_weights_they_began_where_that_differs(tmp_path):
    configs = [configured(), configured(seed=1), configured(method={"k": 2}), configured(method=RELIC)]
    paths = [
        write_run(tmp_path / str(i), config, {"knn": outcome(90.0), "supervised": outcome(50.0)})
        for i, config in enumerate(configs)
    ]
    for path in paths[1:3]:
        (path / "started_from.json").write_text('{"path": "runs/first"}')

    def names(*chosen):
        (section,) = sections([each for path in chosen for each in measured(collect(path))[0]])
        return [row.name for row in section.rows]

    assert names(*paths) == [
        "supervised only",
        "ReLICv2, init-from none",
        "SemPPL, init-from none, k 1",
        "SemPPL, init-from first, k 1",
        "SemPPL, init-from first, k 2",
    ]
    assert names(*paths[1:3]) == ["supervised only", "SemPPL, k 1", "SemPPL, k 2"]


def test_rows_of_one_name_say_how_they_differ(tmp_path):
    runs = [{"k": 1}, {"k": 5}, {"k": 5, "alpha": 0.5}]
    (section,) = made(tmp_path, *((configured(method=each), {"knn": outcome(90.0)}) for each in runs))
    assert [row.name for row in section.rows] == [
        "SemPPL, k 1, alpha 0.2",
        "SemPPL, k 5, alpha 0.2",
        "SemPPL, k 5, alpha 0.5",
    ]


def test_of_many_flags_those_that_differ_from_the_row_in_the_middle(tmp_path):
    runs = [{"k": 5}, {"positives": 5}, {}, {"alpha": 0.5}, {"minimum_votes": 2, "tie": "similarity"}]
    (section,) = made(tmp_path, *((configured(method=each), {"knn": outcome(90.0)}) for each in runs))
    assert [row.name for row in section.rows] == [
        "SemPPL, k 5",
        "SemPPL, positives 5",
        "SemPPL",
        "SemPPL, alpha 0.5",
        "SemPPL, minimum-votes 2, tie similarity",
    ]


def test_epochs_have_a_column(tmp_path):
    (section,) = made(
        tmp_path,
        (configured(), {"knn": outcome(90.0)}),
        (configured(epochs=5.0), {"knn": outcome(80.0, step=100)}),
    )
    assert [(row.name, row.epochs) for row in section.rows] == [("SemPPL", "5"), ("SemPPL", "10")]


def test_what_follows_from_epochs_is_not_said_and_long_fractions_are_cut(tmp_path):
    def run(epochs, decay):
        method = {"target_decay": decay}
        return configured(epochs=epochs, method=method), {"knn": outcome(90.0, step=100)}

    (section,) = made(tmp_path, run(5.0, 0.9869960988296489), run(10.0, 0.995448856525202))
    assert [row.name for row in section.rows] == ["SemPPL", "SemPPL"]
    (section,) = made(tmp_path / "b", run(10.0, 0.9869960988296489), run(10.0, 0.995448856525202))
    assert [row.name for row in section.rows] == ["SemPPL, target-decay 0.987", "SemPPL, target-decay 0.9954"]


def test_training_with_other_labels_than_the_classifiers_is_said(tmp_path):
    (section,) = made(tmp_path, (configured(per_class=4), {"linear": outcome(90.0, labels=50_000)}))
    assert section.rows[0].name == "SemPPL, trained with 40 labels"
    (section,) = made(tmp_path / "b", (configured(method=RELIC), {"linear": outcome(90.0, labels=50_000)}))
    assert section.rows[0].name == "ReLICv2"


def test_labels_alone_are_a_row_whatever_the_run_learnt(tmp_path):
    content = outcome(80.0)
    content["settings"] = {"epochs": 200}
    relic = configured(seed=1, method=RELIC)
    (section,) = made(tmp_path, (configured(), {"supervised": content}), (relic, {"supervised": content}))
    (row,) = section.rows
    assert (row.name, row.epochs) == ("supervised only", "200")
    assert row.values("fine-tuned") == {(0, 0): 80.0, (0, 1): 80.0}
    (section,) = made(
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
