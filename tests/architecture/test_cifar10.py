"""docs/cifar10.py: every command behind the page of results can run, and what is finished is not repeated."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from semppl.config import Config
from semppl.core.rundir import RunDirectory
from semppl.parse import parse
from semppl.protocols.results import result_file
from semppl.protocols.settings import check_flags, wanted_protocols
from semppl.resolve import resolved

SCRIPT = Path(__file__).parents[2] / "docs" / "cifar10.py"


@pytest.fixture
def script(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("cifar10", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cifar10", module)  # dataclasses look there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    return module


@pytest.fixture
def calls(monkeypatch):
    """What would run, with the status it ends with."""
    calls = SimpleNamespace(made=[], ends={})

    def call(arguments, **_):
        calls.made.append(arguments[3:])
        return calls.ends.get(arguments[3], 0)

    monkeypatch.setattr(subprocess, "call", call)
    return calls


def config_of(run) -> Config:
    return resolved(parse(["pretrain", "c.npz", *run.train.split()]).config, image_size=32, num_images=50_000)


def touch(folder, *files):
    (folder / "evaluations").mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / "evaluations" / file).write_text("{}")


def test_every_command_is_one_that_can_run(script):
    for run in script.runs():
        config = config_of(run)
        assert config.net.encoder == ("wrn28-2" if "-wrn" in run.name else "resnet18")
        assert config.total_steps(50_000) in (19_531, 9_765)
        for each in run.evaluations:
            flags = parse(["evaluate", "RUN", *each.split()])
            check_flags(flags)
            files = [
                result_file(RunDirectory(Path()), name, flags.name).name for name in wanted_protocols(flags)
            ]
            assert script.results(each) == files


def test_no_two_runs_and_no_two_results_share_a_place(script):
    names = [run.name for run in script.runs()]
    assert len(names) == len(set(names))
    for run in script.runs():
        files = [file for each in run.evaluations for file in script.results(each)]
        assert len(files) == len(set(files))


@pytest.mark.parametrize("labels", [4000, 500, 250, 40])
def test_every_row_is_there_for_each_number_of_labels(script, labels):
    found = {
        (c.method.objective, c.method.positives > 0, c.method.labels, c.seed)
        for c in map(config_of, script.runs())
        if not c.method.positives or 10 * c.data.labels_per_class == labels
    }
    bases = {
        (base, positives, "pseudo", 0)
        for base in ("relicv2", "simclr", "byol")
        for positives in (True, False)
    }
    parts = {("relicv2", True, "given", 0), ("relicv2", True, "oracle", 0)}
    seeds = {("relicv2", positives, "pseudo", seed) for positives in (True, False) for seed in (1, 2)}
    assert found == bases | parts | seeds


def test_every_switch_beyond_the_paper_has_a_row_that_differs_in_it_alone(script):
    by_name = {run.name: config_of(run) for run in script.runs()}
    plain = by_name["semppl-250-short-seed0"]
    expected = {
        "all-votes": {"minimum_votes": 0},
        "weighted-votes": {"minimum_votes": 0, "vote_power": 4.0},
        "five-positives": {"positives": 5},
        "balanced": {},
    }
    assert script.BEYOND.keys() == expected.keys()
    for name, changes in expected.items():
        data = replace(plain.data, balance_labels=name == "balanced")
        assert by_name[f"semppl-250-{name}-short-seed0"] == replace(
            plain, method=replace(plain.method, **changes), data=data
        )


def test_what_is_finished_is_not_repeated(script, tmp_path):
    run = script.Run("one", "--seed 0", ("--protocol knn linear", "--protocol finetune --name c"))
    out, place = tmp_path / "out", tmp_path / "out" / "one"
    assert script.missing(run, out) == list(run.evaluations)
    touch(place, "knn.json", "finetune-c.json")
    (place / "config.yaml").write_text("")
    assert script.missing(run, out) == ["--protocol knn linear"]
    assert list(script.commands(run, "c.npz", out)) == [
        ["pretrain", "--resume", "--out", str(place)],
        ["evaluate", str(place), "--protocol", "knn", "linear"],
    ]
    touch(place, "linear.json")
    assert script.missing(run, out) == []
    assert list(script.commands(run, "c.npz", out)) == []


def test_a_copy_counts_as_a_whole_for_it_has_no_weights(script, tmp_path):
    run = script.Run("one", "--seed 0", ("--protocol knn", "--protocol linear"))
    touch(script.KEPT / "one", "knn.json")
    assert script.missing(run, tmp_path / "out") == list(run.evaluations)
    first, *_ = script.commands(run, "c.npz", tmp_path / "out")
    assert first == ["pretrain", "c.npz", "--seed", "0", "--out", str(tmp_path / "out" / "one")]
    touch(script.KEPT / "one", "linear.json")
    assert script.missing(run, tmp_path / "out") == []


def test_a_run_ends_with_its_first_failure_and_starts_nothing_too_late(script, tmp_path, calls, capsys):
    run = script.Run("one", "--seed 0", ("--protocol knn", "--protocol linear"))
    calls.ends["pretrain"] = 2
    script.work(run, "c.npz", tmp_path, lambda: True)
    assert [each[0] for each in calls.made] == ["pretrain"]
    assert "one: pretrain, status 2" in capsys.readouterr().out
    assert "$ semppl pretrain c.npz --seed 0" in (tmp_path / "one.log").read_text()
    script.work(run, "c.npz", tmp_path, lambda: False)
    assert len(calls.made) == 1
    calls.ends.clear()
    script.work(run, "c.npz", tmp_path, lambda: True)
    assert [each[0] for each in calls.made[1:]] == ["pretrain", "evaluate", "evaluate"]


def test_a_missing_file_is_one_line_and_nothing_runs(script, tmp_path, calls, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        script.main(["c.npz"])
    assert "c.npz: no such file" in capsys.readouterr().err
    assert (calls.made, list(tmp_path.iterdir())) == ([], [])


def test_the_page_is_made_of_runs_and_of_copies_where_there_is_no_run(script, tmp_path, calls, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "out" / "semppl-40-seed0")
    touch(script.KEPT / "semppl-40-seed0")
    touch(script.KEPT / "relicv2-seed0")
    (tmp_path / "c.npz").touch()
    script.main(["c.npz", "--out", "out", "--only", "nothing"])
    ((verb, *words),) = calls.made
    assert (verb, words[:2]) == ("report", ["out/semppl-40-seed0", "kept/relicv2-seed0"])
    flags = parse([verb, *words])
    assert flags.keep == Path("kept")
    assert flags.beside.resolve() == script.PUBLISHED
