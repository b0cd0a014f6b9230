import json
from shutil import rmtree

import pytest
from tests.ablate.stubs import finish, make_cell, metrics_row

from semppl.ablate.cell import score_of
from semppl.ablate.copies import Copies
from semppl.config import to_yaml
from semppl.core.errors import UserError
from semppl.core.lock import in_use


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
    assert (nothing.of(cell), nothing.score(cell), nothing.attempt_([cell])) == (None, None, "")


def test_anything_else_in_the_place_of_a_copy_is_refused(cell, copies, tmp_path):
    place = tmp_path / "kept" / cell.name
    place.mkdir(parents=True)
    with pytest.raises(
        UserError, match=r"default-seed0 is no copy that --keep made: move it away, or choose"
    ):
        copies.of(cell)


@pytest.mark.parametrize("place", ["out", "more/../out", ".", "..", "run"])
def test_places_that_cannot_hold_copies_are_refused_before_anything_is_trained(tmp_path, place):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    words = "is a run" if place == "run" else "holds the runs themselves"
    with pytest.raises(UserError, match=rf"^--keep .* {words}: choose"):
        Copies(tmp_path / place, tmp_path / "out")


def test_a_place_that_cannot_be_written_or_is_in_use_is_refused_with_its_flag(tmp_path, copies):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"cannot write to .*file/kept \(.*\): choose another --keep"),
        Copies(tmp_path / "file" / "kept", tmp_path / "out").locked(),
    ):
        pass
    with copies.locked():
        assert in_use(tmp_path / "kept")
    assert not (tmp_path / "kept").exists(), "nothing was put there"
    with Copies(None, tmp_path / "out").locked():
        assert not in_use(tmp_path / "out")


def test_what_lies_in_the_place_of_a_copy_is_looked_at_though_it_points_nowhere(cell, copies, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / cell.name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is no copy that --keep made"):
        copies.of(cell)
    assert "is no copy that --keep made" in copies.attempt_([cell])
