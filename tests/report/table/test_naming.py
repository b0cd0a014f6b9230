from tests.report.table.conftest import configured, outcome, sections_of, write_run

from semppl.report.collect import collect
from semppl.report.table.measure import measured
from semppl.report.table.sections import sections

RELIC = {"positives": 0}


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
        "SemPPL, init-from none",
        "SemPPL, init-from first",
        "SemPPL, init-from first, k 2",
    ]
    assert names(*paths[1:3]) == ["supervised only", "SemPPL, k 1", "SemPPL, k 2"]


def test_rows_of_one_name_say_how_they_differ(tmp_path):
    runs = [{"k": 1}, {"k": 5}, {"k": 5, "alpha": 0.5}]
    (section,) = sections_of(tmp_path, *((configured(method=each), {"knn": outcome(90.0)}) for each in runs))
    assert [row.name for row in section.rows] == [
        "SemPPL, k 1, alpha 0.2",
        "SemPPL, k 5, alpha 0.2",
        "SemPPL, k 5, alpha 0.5",
    ]


def usual_rows(tmp_path, *runs):
    """What rows are called and what goes without saying, of runs by (method, epochs, seed)."""
    (section,) = sections_of(
        tmp_path,
        *(
            (configured(epochs=epochs, seed=seed, method=method), {"knn": outcome(90.0)})
            for method, epochs, seed in runs
        ),
    )
    return [(section.called(row), row.unsaid) for row in section.rows]


def test_what_most_runs_have_goes_without_saying(tmp_path):
    found = usual_rows(tmp_path, ({}, 5.0, 0), ({"k": 5}, 5.0, 0), ({}, 10.0, 0), ({}, 10.0, 1))
    assert found == [
        ("SemPPL, 5 epochs", ("k 1",)),
        ("SemPPL, k 5", ("k 1",)),
        ("SemPPL, 10 epochs", ("k 1",)),
    ]


def test_runs_are_counted_and_not_rows(tmp_path):
    # of rows each is as unlike the others; k 1 has three of five runs
    few = [({"k": 5}, 5.0, 0), ({"k": 7}, 5.0, 0)]
    found = usual_rows(tmp_path, *few, *(({}, 10.0, seed) for seed in range(3)))
    assert [name for name, _ in found] == ["SemPPL, k 5", "SemPPL, k 7", "SemPPL"]


def test_what_most_runs_have_are_values_together(tmp_path):
    # most have k 1 and most have α = 0.2, but not the same ones
    found = usual_rows(tmp_path, ({"k": 5}, 5.0, 0), ({"alpha": 1.0}, 5.0, 0), ({}, 5.0, 0))
    assert [name for name, _ in found] == [
        "SemPPL, k 5, alpha 0.2",
        "SemPPL, k 1, alpha 1.0",
        "SemPPL, k 1, alpha 0.2",
    ]


def test_where_half_of_the_runs_differ_all_say_it(tmp_path):
    many = {"k": 5}
    found = usual_rows(tmp_path, ({}, 5.0, 0), (many, 5.0, 0), ({}, 10.0, 0), (many, 5.0, 1))
    assert found == [("SemPPL, k 1, 5 epochs", ()), ("SemPPL, k 5", ()), ("SemPPL, k 1, 10 epochs", ())]


def test_of_two_rows_both_say_it_however_many_seeds_one_has(tmp_path):
    found = usual_rows(tmp_path, ({}, 5.0, 0), ({}, 5.0, 1), ({}, 5.0, 2), ({"k": 5}, 5.0, 0))
    assert found == [("SemPPL, k 1", ()), ("SemPPL, k 5", ())]


def test_of_many_flags_those_that_differ_from_the_row_in_the_middle(tmp_path):
    runs = [{"k": 5}, {"positives": 5}, {}, {"alpha": 0.5}, {"minimum_votes": 2, "tie": "similarity"}]
    (section,) = sections_of(tmp_path, *((configured(method=each), {"knn": outcome(90.0)}) for each in runs))
    assert [row.name for row in section.rows] == [
        "SemPPL, k 5",
        "SemPPL, positives 5",
        "SemPPL",
        "SemPPL, alpha 0.5",
        "SemPPL, minimum-votes 2, tie similarity",
    ]


def test_what_follows_from_epochs_is_not_said_and_long_fractions_are_cut(tmp_path):
    def run(epochs, decay):
        method = {"target_decay": decay}
        return configured(epochs=epochs, method=method), {"knn": outcome(90.0, step=100)}

    (section,) = sections_of(tmp_path, run(5.0, 0.9869960988296489), run(10.0, 0.995448856525202))
    assert [row.name for row in section.rows] == ["SemPPL", "SemPPL"]
    (section,) = sections_of(tmp_path / "b", run(10.0, 0.9869960988296489), run(10.0, 0.995448856525202))
    assert [row.name for row in section.rows] == ["SemPPL, target-decay 0.987", "SemPPL, target-decay 0.9954"]
