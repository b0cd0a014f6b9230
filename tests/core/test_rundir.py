import errno
import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import semppl.core.rundir as rundir
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_atomically, write_text

CONFIG = {seed: f"source: digits\nseed: {seed}\n" for seed in (1, 2, 3)}
HOLD = """
import sys
from pathlib import Path
from semppl.core.rundir import RunDirectory
with RunDirectory(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def files_of_at_most(size):
    """A disk that is full after so many bytes of a file, as far as this process can tell."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_it_is_done(tmp_path, monkeypatch):
    order, real = [], os.fsync

    def fsync(descriptor):
        order.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))  # noqa: PTH115, PTH119
        order.append((tmp_path / "a.txt").exists())
        real(descriptor)

    monkeypatch.setattr(rundir.os, "fsync", fsync)
    write_text(tmp_path / "a.txt", "new")
    assert order == [f".a.txt.{os.getpid()}.tmp", False, tmp_path.name, True]


def test_a_system_that_cannot_flush_a_folder_writes_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rundir.os, "open", refuse)
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_disk_that_is_full_half_way_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with files_of_at_most(10_000), pytest.raises(OSError, match="File too large"):
        write_text(path, "x" * 100_000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_with_anything_in_it_is_not_touched(tmp_path):
    (tmp_path / "thesis.doc").write_text("three years")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=str(tmp_path)):
            RunDirectory(tmp_path).prepare_("", overwrite=overwrite)
    assert (tmp_path / "thesis.doc").read_text() == "three years"


def test_a_folder_of_another_program_is_not_touched(tmp_path):
    (tmp_path / "config.yaml").write_text("lr: 0.1")
    (tmp_path / "thesis.doc").write_text("three years")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="holds no run of ours: choose another --out"):
            RunDirectory(tmp_path).prepare_(CONFIG[1], overwrite=overwrite)
    assert (tmp_path / "thesis.doc").read_text() == "three years"
    assert (tmp_path / "config.yaml").read_text() == "lr: 0.1"


def test_a_run_is_known_by_its_split_too(tmp_path):
    run = RunDirectory(tmp_path)
    run.prepare_("epochs: 1", overwrite=False)
    write_text(run.split_sha256, "0")
    run.require_free(overwrite=True)


def test_a_run_in_which_lies_what_the_new_one_is_made_from_is_not_replaced(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.require_free(overwrite=True, given=[tmp_path / "run"])  # nothing is replaced
    run.prepare_(CONFIG[1], overwrite=False)
    (run.path / "photos").mkdir()
    (tmp_path / "link").symlink_to(run.path / "photos")
    for given in (run.path / "photos", str(tmp_path / "link"), run.path):
        with pytest.raises(UserError, match=r"lies in .*, which would be replaced: choose another --out"):
            run.require_free(overwrite=True, given=[None, "digits", given])
    run.require_free(overwrite=True, given=[None, "", "digits", tmp_path, run.path / "gone"])


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "far" / "a.txt")
    for text in ("new", "newer"):
        write_text(tmp_path / "link.txt", text)
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "far" / "a.txt").read_text() == text


def test_a_pipe_is_written_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        write_text(pipe, "a table")
        assert reader.communicate(timeout=30)[0] == "a table"
    assert pipe.is_fifo()


def test_standard_output_is_written_through_its_link():
    script = (
        "from pathlib import Path; from semppl.core.rundir import write_text; "
        "write_text(Path('/dev/stdout'), 'a table')"
    )
    said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, text=True)
    assert said.stdout == "a table"


def test_a_link_to_itself_is_replaced(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write_text(tmp_path / "loop", "text")
    assert (tmp_path / "loop").read_text() == "text"


def test_a_run_is_replaced_only_when_told(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_(CONFIG[1], overwrite=False)
    write_text(run.path / "old.txt", "")
    with pytest.raises(UserError, match="--resume"):
        run.prepare_(CONFIG[2], overwrite=False)
    assert run.config.read_text() == CONFIG[1]
    run.prepare_(CONFIG[2], overwrite=True)
    assert run.config.read_text() == CONFIG[2]
    assert not (run.path / "old.txt").exists()
    assert list(tmp_path.iterdir()) == [run.path]


def test_a_run_behind_a_link_is_replaced_too(tmp_path):
    RunDirectory(tmp_path / "real").prepare_(CONFIG[1], overwrite=False)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    RunDirectory(tmp_path / "link").prepare_(CONFIG[2], overwrite=True)
    assert (tmp_path / "real" / "config.yaml").read_text() == CONFIG[2]


def test_a_run_in_use_is_not_overwritten(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_(CONFIG[1], overwrite=False)
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"in use by process {process.pid} on"):
            run.prepare_(CONFIG[2], overwrite=True)
        process.communicate("\n", timeout=30)
    assert run.config.read_text() == CONFIG[1]
    run.prepare_(CONFIG[2], overwrite=True)
    assert run.config.read_text() == CONFIG[2]


def test_who_holds_the_lock_overwrites_and_holds_it_still(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare_(CONFIG[1], overwrite=False)
    run.checkpoints.mkdir()
    with run.locked():
        before = (run.path / ".lock").stat().st_ino
        run.prepare_(CONFIG[2], overwrite=True)
        assert (run.path / ".lock").stat().st_ino == before
        refused = subprocess.run(
            [sys.executable, "-c", HOLD, str(run.path)],
            check=False,
            capture_output=True,
            text=True,
            input="\n",
        )
        assert f"in use by process {os.getpid()} on" in refused.stderr
    assert [path.name for path in run.path.iterdir()] == ["config.yaml"]
    assert list(tmp_path.iterdir()) == [run.path]


def test_a_crash_while_a_run_is_overwritten_leaves_a_run_or_nothing_in_the_way(tmp_path, monkeypatch):
    for moves in range(5):
        run = RunDirectory(tmp_path / f"{moves}")
        run.prepare_(CONFIG[1], overwrite=False)
        for name in ("a", "metrics.jsonl", "z"):
            write_text(run.path / name, "")
        left, real = [None] * moves, type(run.path).replace

        def replace(path, target, left=left, real=real):
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return real(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(type(run.path), "replace", replace)
            with pytest.raises(KeyboardInterrupt):
                run.prepare_(CONFIG[2], overwrite=True)
        assert run.exists is (moves < 4), "the configuration goes last"
        run.prepare_(CONFIG[3], overwrite=True)
        assert run.config.read_text() == CONFIG[3]
        assert len(list(run.path.iterdir())) == 1


def test_a_lock_or_the_rest_of_a_start_that_was_killed_is_not_in_the_way(tmp_path):
    (tmp_path / ".lock").write_text("1 elsewhere")
    (tmp_path / ".config.yaml.7.tmp").write_text("see")
    run = RunDirectory(tmp_path)
    assert not run.exists
    run.require_free(overwrite=False)
    run.prepare_(CONFIG[1], overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(rundir, "write_text", full)
    with pytest.raises(UserError, match=r"cannot write to .*run \(Read-only file system\): choose another"):
        RunDirectory(tmp_path / "run").prepare_("", overwrite=False)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_was_writing_is_swept_by_the_holder_of_the_lock_and_nothing_else(tmp_path):
    run = RunDirectory(tmp_path)
    run.prepare_("", overwrite=False)
    run.checkpoints.mkdir()
    rest = [run.checkpoints / ".step-00000007.ckpt.123.tmp", run.path / f".metrics.jsonl.{os.getpid()}.tmp"]
    others = [
        run.checkpoints / "step-00000003.ckpt",
        run.checkpoints / ".step-mine.tmp",
        run.path / ".notes.5.tmp",
        run.path / ".split.csv.tmp",
    ]
    for path in (*rest, *others):
        path.write_text("")
    (run.path / ".config.yaml.5.tmp").mkdir()  # a folder is none of ours
    with pytest.raises(ValueError, match="is not locked"):
        run.sweep_()
    with run.locked():
        run.sweep_()
    assert not any(path.exists() for path in rest)
    assert all(path.exists() for path in others)
    assert (run.path / ".config.yaml.5.tmp").is_dir()


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


def test_a_line_that_does_not_fit_on_the_disk_leaves_none_of_itself(tmp_path):
    run = RunDirectory(tmp_path)
    run.append_metrics({"step": 1})
    before = run.metrics.read_bytes()
    with files_of_at_most(len(before) + 5), pytest.raises(OSError, match="File too large"):
        run.append_metrics({"step": 2, "loss": 0.25})
    assert run.metrics.read_bytes() == before
    run.append_metrics({"step": 2, "loss": 0.25})
    assert run.read_metrics() == [{"step": 1}, {"step": 2, "loss": 0.25}]


def test_the_error_of_a_full_disk_is_the_one_that_is_heard_of(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        run.append_metrics({"step": 1})


def test_resuming_needs_a_run(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        RunDirectory(tmp_path).require()


def test_a_copy_for_tables_is_no_run_to_go_on_with(tmp_path):
    run = RunDirectory(tmp_path)
    run.config.write_text("epochs: 1\n")
    run.require()
    run.kept.write_text("{}")
    with pytest.raises(UserError, match=r"small copy of a run.*use the run itself"):
        run.require()


def test_the_environment_names_versions(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_environment(device="cpu")
    facts = json.loads(run.environment.read_text())
    assert facts["device"] == "cpu"
    assert facts["packages"]["torch"]


@pytest.mark.parametrize(("name", "word"), [("run", "run"), ("my run", "'my run'"), ("a'b", "'a'\"'\"'b'")])
def test_commands_have_the_path_as_a_shell_wants_it(name, word):
    assert RunDirectory(Path(name)).quoted == word
