import json

import pytest

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_atomically, write_text


def test_an_interrupted_write_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_with_anything_in_it_is_not_touched(tmp_path):
    (tmp_path / "thesis.doc").write_text("three years")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=str(tmp_path)):
            RunDirectory(tmp_path).prepare_("", overwrite=overwrite)
    assert (tmp_path / "thesis.doc").read_text() == "three years"


def test_a_run_is_replaced_only_when_told(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_("seed: 1", overwrite=False)
    write_text(run.path / "old.txt", "")
    with pytest.raises(UserError, match="--resume"):
        run.prepare_("seed: 2", overwrite=False)
    assert run.config.read_text() == "seed: 1"
    run.prepare_("seed: 2", overwrite=True)
    assert run.config.read_text() == "seed: 2"
    assert not (run.path / "old.txt").exists()
    assert list(tmp_path.iterdir()) == [run.path]


def test_a_run_behind_a_link_is_replaced_too(tmp_path):
    RunDirectory(tmp_path / "real").prepare_("seed: 1", overwrite=False)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    RunDirectory(tmp_path / "link").prepare_("seed: 2", overwrite=True)
    assert (tmp_path / "real" / "config.yaml").read_text() == "seed: 2"


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="is a file"):
        RunDirectory(tmp_path / "run").prepare_("", overwrite=True)


def test_metrics_of_steps_to_be_repeated_are_forgotten_and_a_torn_line_is_passed_over(tmp_path):
    run = RunDirectory(tmp_path)
    for step in (2, 4, 6):
        run.append_metrics({"step": step, "loss": step / 2})
    with run.metrics.open("a") as file:
        file.write('{"step": 8, "lo')
    assert [row["step"] for row in run.read_metrics()] == [2, 4, 6]
    run.forget_metrics_after_(4)
    assert [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()] == [2, 4]


def test_resuming_needs_a_run(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        RunDirectory(tmp_path).require()


def test_the_environment_names_versions(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_environment(device="cpu")
    facts = json.loads(run.environment.read_text())
    assert facts["device"] == "cpu"
    assert facts["packages"]["torch"]
