import errno
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import semppl.core.lock as lock
from semppl.core.errors import UserError
from semppl.core.lock import LOCK, held, in_use, locked

HOLD = """
import sys
from pathlib import Path
from semppl.core.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""
FORK = """
import os, sys, time
from pathlib import Path
from semppl.core.lock import held, locked
with locked(Path(sys.argv[1])):
    if os.fork() == 0:
        assert not held(Path(sys.argv[1]))
        print("held", flush=True)
        sys.stdin.readline()
        os._exit(0)
    time.sleep(60)
"""


@contextmanager
def another_process(folder, program=HOLD):
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("\n", timeout=30)


def test_a_folder_in_use_is_refused_in_one_line_that_says_by_whom(tmp_path):
    run = tmp_path / "run"
    with another_process(run) as process:
        with pytest.raises(UserError) as refused, locked(run):
            pass
        assert str(refused.value) == (
            f"{run} is in use by process {process.pid} on {socket.gethostname()}: wait for it, or choose "
            "another --out"
        )
        assert not held(run)
        (run / LOCK).write_text("")
        with pytest.raises(UserError, match="in use by another process"), locked(run):
            pass
    with locked(run):
        assert held(run)


def test_the_kernel_takes_the_lock_of_a_killed_process_back(tmp_path):
    with another_process(tmp_path) as process:
        process.kill()
        process.wait(timeout=30)
        assert (tmp_path / LOCK).read_text().split()[0] == str(process.pid), "it had no time to tidy up"
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_text().split()[0] == str(os.getpid())


def test_a_worker_that_outlives_its_parent_does_not_keep_the_lock(tmp_path):
    with another_process(tmp_path, FORK) as process:
        process.kill()
        process.wait(timeout=30)
        with locked(tmp_path):
            assert held(tmp_path)
        process.communicate("\n", timeout=30)


def test_the_same_process_may_lock_twice_and_holds_on_until_the_outer_end(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with locked(tmp_path / "run"):
        with locked(tmp_path / "link"):
            assert held(tmp_path / "run")
        assert held(tmp_path / "run")
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.run(
                [sys.executable, "-c", HOLD, str(tmp_path / "run")],
                check=True,
                capture_output=True,
                input=b"\n",
            )
    assert not held(tmp_path / "run")


def test_nothing_is_left_neither_the_file_nor_folders_that_were_made_for_it(tmp_path):
    (tmp_path / "there").mkdir()
    with locked(tmp_path / "there"), locked(tmp_path / "a" / "b" / "run"), locked(tmp_path / "c"):
        (tmp_path / "c" / "result").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c", "result", "there"]


def test_a_lock_that_was_moved_away_with_its_folder_is_not_mistaken_for_the_new_one(tmp_path):
    run = tmp_path / "run"
    with locked(run):
        run.rename(tmp_path / "aside")
        run.mkdir()
        with another_process(run):
            assert (run / LOCK).exists()
        run.rename(tmp_path / "gone")


def test_a_file_that_its_holder_has_just_removed_is_no_lock(tmp_path, monkeypatch):
    file = tmp_path / LOCK
    real, removed = os.open, []

    def opened(path, *options):
        descriptor = real(path, *options)
        if not removed:
            removed.append(Path(path))
            file.unlink()
        return descriptor

    monkeypatch.setattr(lock.os, "open", opened)
    with locked(tmp_path):
        assert removed == [file]
        assert file.is_file()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.os, "open", refuse)
    words = rf"cannot write to .*run \({os.strerror(number)}\): choose another --out"
    with pytest.raises(UserError, match=words), locked(tmp_path / "above" / "run"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file: choose another --out"), locked(tmp_path / "file"):
        pass
    with pytest.raises(UserError, match="cannot write to"), locked(tmp_path / "file" / "run"):
        pass


def test_a_folder_that_vanishes_is_let_go_without_a_word(tmp_path):
    with locked(tmp_path / "run"):
        (tmp_path / "run" / LOCK).unlink()
        (tmp_path / "run").rmdir()
    assert not list(tmp_path.iterdir())


def test_without_locks_of_the_system_it_does_nothing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(lock, "fcntl", None)
        with locked(tmp_path):
            assert held(tmp_path)
            assert not list(tmp_path.iterdir())

    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", unknown)
    with locked(tmp_path):
        assert held(tmp_path)


def test_others_can_see_that_a_folder_is_in_use(tmp_path):
    run = tmp_path / "run"
    assert not in_use(run)
    with another_process(run) as process:
        assert in_use(run)
        process.kill()
        process.wait()
        assert (run / LOCK).exists(), "left behind"
        assert not in_use(run)
    with locked(run):
        assert in_use(run)
    assert not in_use(run)
