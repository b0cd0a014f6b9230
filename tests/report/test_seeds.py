import json
import math
from dataclasses import replace

import pytest
from tests.report.conftest import measured_run

from semppl.report.collect import collect
from semppl.report.seeds import Mean, decisive, distinguishing, group_differences, grouped, means


@pytest.fixture
def runs(tmp_path):
    """Two configurations, seeds 0 to 2 of the first and 1 to 3 of the second."""

    def make(seed, value, positives):
        path = measured_run(tmp_path / f"p{positives}-{seed}", value, seed=seed, method__positives=positives)
        return collect(path)

    return [
        *(make(seed, value, 3) for seed, value in enumerate((80.0, 82.0, 87.0))),
        *(make(seed, value, 0) for seed, value in zip((1, 2, 3), (81.0, 83.0, 70.0), strict=True)),
    ]


def test_runs_that_differ_in_the_seed_alone_are_one_group(runs):
    one, other = grouped(runs)
    assert [run.seed for run in one.runs] == [0, 1, 2]
    assert (one.name, other.name) == ("positives 3", "positives 0")
    assert [group.name for group in grouped(runs[:3])] == ["all runs"]


def test_means_by_hand(runs):
    found = means(grouped(runs))["knn", "top-1"]
    assert found[0] == Mean(83.0, pytest.approx(math.sqrt((9 + 1 + 16) / 2)), 3)
    assert str(found[0]) == "83.0 ± 3.6 (3)"
    assert str(means(grouped(runs[:1]))["knn", "top-1"][0]) == "80.0"


def test_differences_are_paired_by_seed(runs):
    found = next(each for each in group_differences(grouped(runs)) if each.key == ("knn", "top-1"))
    assert found.by_seed == {1: -1.0, 2: -4.0}
    assert (found.group, found.value) == ("positives 0", -2.5)
    assert found.deviation == pytest.approx(math.sqrt(2 * 1.5**2))


def test_without_a_common_seed_means_are_compared(runs):
    found = group_differences(grouped([runs[0], runs[2], runs[3], runs[5]]))[0]
    assert found.by_seed == {}
    assert found.value == pytest.approx(75.5 - 83.5)
    assert found.deviation == pytest.approx(math.sqrt(24.5 + 60.5))
    assert group_differences(grouped([runs[0], runs[3]]))[0].deviation is None


def test_two_runs_of_one_seed_count_once(tmp_path, runs):
    again = collect(measured_run(tmp_path / "again", 84.0, seed=1, method__positives=3))
    found = group_differences(grouped([runs[1], again, runs[3]]))[0]
    assert found.by_seed == {1: 81.0 - 83.0}


def test_runs_whose_seed_is_not_known_are_not_paired(tmp_path):
    runs = [
        replace(collect(measured_run(tmp_path / name, value, method__positives=positives)), config=config)
        for name, value, positives in (("a", 80.0, 3), ("b", 84.0, 0))
        for config in [{"method": {"positives": positives}}]
    ]
    assert [run.seed for run in runs] == [None, None]
    (found,) = [each for each in group_differences(grouped(runs)) if each.key == ("knn", "top-1")]
    assert (found.value, found.by_seed) == (4.0, {})


def test_the_mean_counts_a_seed_once(tmp_path, runs):
    again = collect(measured_run(tmp_path / "again", 84.0, seed=1, method__positives=3))
    (found,) = means(grouped([runs[0], runs[1], again]))["knn", "top-1"]
    assert (found.value, found.count) == ((80.0 + 83.0) / 2, 2)


def test_minutes_may_give_seeds_of_fit_other_epochs(tmp_path):
    paths = [measured_run(tmp_path / f"f{seed}", seed=seed, epochs=10.0 + seed) for seed in range(2)]
    assert len(grouped([collect(path) for path in paths])) == 2
    for path in paths:
        (path / "fit.yaml").write_text("minutes: 5\n")
    assert len(grouped([collect(path) for path in paths])) == 1


def test_where_it_ran_decides_nothing(tmp_path):
    here = measured_run(tmp_path / "a", seed=0, device="cpu", source="/here/photos")
    there = measured_run(
        tmp_path / "b", seed=5, device="cuda", source="/there/photos", data__labels="/there/labels.csv"
    )
    assert len(grouped([collect(here), collect(there)])) == 1
    split = measured_run(tmp_path / "c", seed=5, data__split_seed=0)
    assert len(grouped([collect(here), collect(split)])) == 2, "another split than its seed's"
    other = measured_run(tmp_path / "d", data__labels="/data/other.csv")
    assert decisive(collect(other))["data.labels"] == "other.csv"
    assert len(grouped([collect(here), collect(other)])) == 2


def test_masks_are_told_apart_by_their_content_and_by_their_place_where_that_is_not_known(tmp_path):
    def run(name, seed, place, sha256=None):
        path = measured_run(tmp_path / name, seed=seed, data__masks=place)
        if sha256:
            file = path / "environment.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | {"masks_sha256": sha256}))
        return collect(path)

    one, same = run("a", 0, "/here/masks", "ab" * 32), run("b", 1, "/there/masks", "ab" * 32)
    assert len(grouped([one, same])) == 1
    assert len(grouped([one, run("c", 1, "/here/masks", "cd" * 32)])) == 2
    assert len(grouped([run("d", 0, "/here/masks"), run("e", 1, "/there/masks")])) == 2


def test_a_run_from_before_there_was_a_choice_belongs_to_those_that_made_none(tmp_path):
    old = collect(measured_run(tmp_path / "a", 80.0, seed=0))
    for name, value, groups in (
        ("data__balance_labels", False, 1),
        ("data__balance_labels", True, 2),
        ("data__masks", "none", 1),
        ("method__vote_power", 0.0, 1),
        ("method__vote_power", 2.0, 2),
    ):
        new = collect(measured_run(tmp_path / f"{name}-{value}", 81.0, seed=1, **{name: value}))
        assert len(grouped([old, new])) == groups, (name, value)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (("plain-seed0", "plain-seed1", "k5-seed0", "k5-seed1"), ["plain", "k5"]),
        (("plain_Seed0", "plain.seed12", "b", "b-seed 3"), ["plain", "b"]),
        (("a-seed0", "b-seed1", "c-seed0", "c-seed1"), ["positives 3", "positives 0"]),
        (("a-seed0", "a-seed1", "old/a-seed0", "old/a-seed1"), ["positives 3", "positives 0"]),
    ],
    ids=["stems", "spellings", "two names in one group", "one name for two groups"],
)
def test_groups_are_named_by_their_folders_where_these_tell_them_apart(tmp_path, names, groups):
    (tmp_path / "old").mkdir()
    runs = [
        collect(measured_run(tmp_path / name, seed=i % 2, method__positives=3 if i < 2 else 0))
        for i, name in enumerate(names)
    ]
    assert [group.name for group in grouped(runs)] == groups


def test_many_differences_are_named_by_runs(tmp_path):
    one = measured_run(tmp_path / "a", epochs=1.0, batch_size=2, method__k=3, method__positives=0)
    other = measured_run(tmp_path / "b")
    assert [group.name for group in grouped([collect(one), collect(other)])] == ["a", "b"]


def test_values_that_differ_somewhere():
    assert distinguishing([{"a": "1", "b": "2"}, {"a": "1"}]) == ["b"]
