import multiprocessing
import subprocess
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
from PIL import Image

from semppl.core.errors import RunError
from semppl.data import checking
from semppl.data.checking import check_files
from semppl.data.paths import Paths


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Forty images of widths 1 to 40, of which every tenth is damaged; four of them are a part."""
    monkeypatch.setattr(checking, "_CHUNK", 4)
    for width in range(1, 41):
        path = tmp_path / f"{width:02d} 猫.png"
        Image.new("RGB", (width, 3)).save(path)
        if width % 10 == 0:
            path.write_bytes(b"damaged")
    return Paths(sorted(path.name for path in tmp_path.iterdir()))


def collected(parts):
    sizes, problems = {}, {}
    for part, seen in parts:
        sizes.update(zip(part.tolist(), seen.sizes.tolist(), strict=True))
        problems.update((int(part[row]), problem) for row, problem in seen.problems)
    return sizes, problems


def test_files_are_checked_part_by_part(tmp_path, paths):
    todo = np.array([0, 1, 9, 20, 30, 38])
    parts = list(check_files(tmp_path, paths, todo, workers=2))
    assert [part.tolist() for part, _ in parts] == [[0, 1, 9, 20], [30, 38]]
    sizes, problems = collected(parts)
    assert sizes == {0: [1, 3], 1: [2, 3], 9: [0, 0], 20: [21, 3], 30: [31, 3], 38: [39, 3]}
    assert problems == {9: "not an image"}


def test_nothing_to_do_is_nothing(tmp_path, paths):
    assert list(check_files(tmp_path, paths, np.array([], dtype=np.int64), workers=2)) == []


def test_processes_see_the_same_and_leave_when_they_are_told(tmp_path, paths, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = collected(check_files(tmp_path, paths, np.arange(40), workers=1))
    monkeypatch.setattr(checking, "_FEW", 10)
    together = check_files(tmp_path.relative_to(tmp_path), paths, np.arange(40), workers=2)
    assert collected(together) == alone
    stopped = check_files(tmp_path, paths, np.tile(np.arange(40), 50), workers=2)
    next(stopped)
    assert multiprocessing.active_children()
    stopped.close()
    assert multiprocessing.active_children() == []


def test_a_process_stops_early_when_it_is_told(tmp_path, paths, monkeypatch):
    ending = multiprocessing.get_context("spawn").Event()
    monkeypatch.setattr(checking, "_ENDING", [ending])
    assert checking._look(str(tmp_path), paths).sizes.any()
    ending.set()
    assert not checking._look(str(tmp_path), paths).sizes.any()


def test_a_process_that_dies_is_an_error_of_the_run(paths):
    broken = Future()
    broken.set_exception(BrokenProcessPool())
    with pytest.raises(RunError, match=r"died near 03 猫\.png to 05 猫\.png"):
        checking._result(np.array([2, 3, 4]), broken, paths)


def test_it_needs_no_torch():
    code = "import sys, semppl.data.scan; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
