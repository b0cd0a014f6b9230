import re

import pytest
from tests.report.table.conftest import configured, outcome, write_run
from tests.report.table.test_record import files

from semppl.core.errors import RunError, UserError
from semppl.report.collect import collect
from semppl.report.table import keep as module
from semppl.report.table.keep import keep_, records_of


def kept(paths, folder):
    places = records_of([collect(path) for path in paths], folder)
    return keep_(places), list(places)


@pytest.fixture
def runs(tmp_path):
    return [
        write_run(tmp_path / "runs" / name, configured(seed=seed), {"knn": outcome(90.0 + seed)})
        for seed, name in enumerate("ab")
    ]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "docs" / "records"


def test_a_copy_of_each_run_under_its_name(runs, folder, tmp_path):
    size, places = kept(runs, folder)
    assert places == [folder / "a", folder / "b"]
    found = files(folder)
    assert size == sum(map(len, found.values()))
    assert {name.split("/")[0] for name in found} == {"a", "b"}
    assert found["b/evaluations/knn.json"] == (runs[1] / "evaluations" / "knn.json").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["docs", "runs"], "nothing else is left"
    assert [each.name for each in (tmp_path / "docs").iterdir()] == ["records"]


def test_a_later_state_replaces_a_copy(runs, folder):
    kept(runs, folder)
    result = runs[0] / "evaluations" / "knn.json"
    result.with_name("knn-x.json").write_bytes(result.read_bytes())
    kept(runs[:1], folder)
    assert {each.name for each in (folder / "a" / "evaluations").iterdir()} == {"knn.json", "knn-x.json"}
    assert sorted(each.name for each in folder.iterdir()) == ["a", "b"]


def test_no_result_is_lost_with_an_earlier_state(runs, folder):
    kept(runs, folder)
    before, result = files(folder), runs[0] / "evaluations" / "knn.json"
    result.rename(result.with_name("knn-x.json"))
    refused(runs, folder, r"records/a has results that .*runs/a lacks \(knn.json\): move it away")
    assert files(folder) == before


def test_copies_stay_where_they_are_or_go_elsewhere(runs, folder, tmp_path):
    kept(runs, folder)
    before = files(folder)
    assert kept([folder / "a", folder / "b"], folder) == (0, [])
    kept([folder / "a", folder / "b"], folder.parent)
    assert files(folder) == before
    assert all(files(folder.parent / name) == files(folder / name) for name in "ab")


def refused(paths, folder, match):
    with pytest.raises(UserError, match=match) as error:
        kept(paths, folder)
    assert len(str(error.value).splitlines()) == 1


def test_two_runs_of_one_name(runs, folder, tmp_path):
    other = write_run(tmp_path / "else" / "a", configured(seed=5), {})
    refused([*runs, other], folder, r"runs/a and .*else/a have the same name, .*: rename one of them")
    assert not folder.exists()


def test_places_in_or_around_a_run(runs, folder, tmp_path):
    before = files(tmp_path)
    for place in (runs[0], runs[0] / "kept", runs[1] / ".." / "a" / "kept"):
        refused(runs, place, r"--keep .* lies in the run .*runs/a: choose another folder")
    for place in (tmp_path / "runs", tmp_path):
        refused(runs, place, r"--keep .* holds the run .*runs/a itself: choose a folder for copies alone")
    assert files(tmp_path) == before
    kept(runs, folder)
    refused([folder / "a"], folder / "a", "lies in the run")


def test_what_is_in_the_way_stays(runs, folder, tmp_path):
    kept(runs[1:], folder)
    other = write_run(tmp_path / "else" / "b", configured(seed=7), {})
    refused([runs[0], other], folder, r"records/b is a copy of another run: move it away, or choose another")
    (folder / "b" / "notes.md").write_text("mine")
    refused(runs, folder, re.escape("records/b holds more than a copy (notes.md): move it away"))
    (folder / "a").mkdir()
    refused(runs, folder, "records/a is no copy that --keep made")
    (folder / "a").rmdir()
    (folder / "a").write_text("mine")
    refused(runs, folder, "records/a is no copy that --keep made")
    refused(runs, folder / "a", "records/a is a file: choose another --keep")
    refused(runs, folder / "a" / "below", "records/a is a file: choose another --keep")
    assert (folder / "a").read_text() == "mine"
    (folder / "a").unlink()
    (folder / "a").symlink_to(runs[0])
    refused(runs, folder, "records/a is no copy that --keep made")
    assert [each.name for each in folder.iterdir() if each.name != "b"] == ["a"]


def test_a_failure_leaves_all_as_it_was(runs, folder, tmp_path, monkeypatch):
    kept(runs, folder)
    before = files(tmp_path)

    def full(run, place):
        (place / "config.yaml").write_text("half")
        if run.name == "b":
            raise OSError(28, "No space left on device", str(place / "metrics.jsonl"))

    monkeypatch.setattr(module, "write_record", full)
    with pytest.raises(RunError, match=r"no copies for --keep \(.*metrics.jsonl: No space left on device\)"):
        kept(runs, folder)
    assert files(tmp_path) == before
    monkeypatch.setattr(module, "write_record", lambda *_: (_ for _ in ()).throw(OSError(5, "broken")))
    with pytest.raises(RunError, match=r"no copies for --keep \(broken\): make room"):
        kept(runs, folder)
