import json
from shutil import rmtree

import pytest
from tests.ablate.stubs import finish, make_cell, metrics_row

from semppl.ablate.cell import score_of
from semppl.ablate.copies import Copies
from semppl.config import to_yaml
from semppl.core.errors import UserError


@pytest.fixture
def cell(tmp_path):
    """A finished run."""
    cell = make_cell(tmp_path / "out", "default-seed0")
    cell.run.prepare_(to_yaml(cell.config), overwrite=False)
    finish(cell)
    cell.run.write_environment(device="NVIDIA H200")
    return cell


@pytest.fixture
def copies(tmp_path):
    return Copies(tmp_path / "kept", tmp_path / "out")


def test_a_copy_has_the_score_of_its_run_though_it_has_few_of_its_lines(cell, copies, tmp_path):
    # each of 200 lines has a speed of its own, so that no few of them know how long training took
    rows = [metrics_row(step, right=step % 4, rate=1.0 + step % 7) for step in range(1, 201)]
    cell.run.metrics.write_text("".join(f"{json.dumps(row | {'epoch': row['step'] / 4})}\n" for row in rows))
    before = score_of(cell)
    assert before.versions.endswith("NVIDIA H200")
    assert copies.score(cell) is None
    copies.keep_([cell])
    rmtree(cell.path)
    kept = copies.score(cell)
    assert len((tmp_path / "kept" / cell.name / "metrics.jsonl").read_text().splitlines()) < 70
    assert kept.minutes == pytest.approx(before.minutes, abs=0.1 / 60)
    assert (kept.linear, kept.knn, kept.pseudo) == (before.linear, before.knn, before.pseudo)
    assert (kept.versions, kept.protocols) == (before.versions, before.protocols)


def test_a_copy_that_is_there_is_not_made_again(cell, copies, tmp_path):
    copies.keep_([cell])
    finish(cell, linear=99.0)
    copies.keep_([cell])
    assert copies.score(cell).linear == 50.0


def test_without_a_folder_nothing_is_kept(cell, tmp_path):
    nothing = Copies(None, tmp_path / "out")
    nothing.keep_([cell])
    assert (nothing.of(cell), nothing.score(cell), nothing.attempt_(cell)) == (None, None, "")


def test_anything_else_in_the_place_of_a_copy_is_refused(cell, copies, tmp_path):
    place = tmp_path / "kept" / cell.name
    place.mkdir(parents=True)
    with pytest.raises(
        UserError, match=r"default-seed0 is no copy that --keep made: move it away, or choose"
    ):
        copies.of(cell)


def test_places_that_cannot_hold_copies_are_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(UserError, match=r"--keep .*out holds the runs themselves"):
        Copies(tmp_path / "more" / ".." / "out", tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is a file: choose another --keep"):
        Copies(tmp_path / "file" / "kept", tmp_path / "out")
