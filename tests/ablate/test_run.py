import io
import json
import signal
from dataclasses import replace
from shutil import rmtree

import pytest
from rich.console import Console
from tests.ablate.stubs import finish
from tests.conftest import tiny_config

import semppl.ablate.run as module
from semppl.ablate.cell import Cell
from semppl.ablate.pool import End
from semppl.ablate.run import count_steps, run_ablate
from semppl.ablate.settings import AblateFlags
from semppl.config import to_yaml
from semppl.core.by_labels import NO_PICTURE
from semppl.core.errors import RunError, UserError
from semppl.train.interrupt import Interrupted
from semppl.train.progress import StageProgress

LINEAR = {"default": 90.0, "labels-given": 85.0, "positives-0": 80.0}


def stub_work(cell: Cell, slot: int, jobs: int) -> None:
    if not cell.run.exists:
        cell.run.prepare_(to_yaml(cell.config), overwrite=False)
    slug, _, seed = cell.name.rpartition("-seed")
    finish(cell, linear=LINEAR.get(slug, 70.0) + int(seed))


def in_this_process(cells, work, *, jobs, begin, ended, look, told):
    for cell in cells:
        begin(cell)
        try:
            work(cell, 0, jobs)
        except RunError as error:
            ended(End(cell, 1.0, str(error)))
        else:
            ended(End(cell, 1.0))
        look()


@pytest.fixture
def go(npz, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "run_cells", in_this_process)
    output = io.StringIO()

    def run(table="parts", *, work=stub_work, flags=None, changes=None, **kwargs):
        flags = flags or AblateFlags(seeds=2, out=tmp_path / "out")
        console = Console(file=output, width=120)
        config = tiny_config(npz, device="cpu", **(changes or {}))
        trained = []

        def counted(cell, slot, jobs):
            trained.append(cell.name)
            work(cell, slot, jobs)

        run.trained, run.text = trained, output
        found = run_ablate(
            config,
            table,
            flags,
            console,
            "semppl ablate …",
            work=counted,
            measure=lambda *_: 0.5,
            start=lambda: 2.0,
            **kwargs,
        )
        return found.get(table, found)

    return run


def never(cell, slot, jobs):
    raise AssertionError(cell.name)


def test_the_table_is_written_and_finished_cells_are_not_repeated(go, tmp_path):
    found = go()
    assert go.trained == [f"{slug}-seed{seed}" for seed in (0, 1) for slug in LINEAR]
    text = go.text.getvalue()
    assert "parts: 6 cells" in text
    # 6 steps of half a second, and two seconds to start
    assert "6 cells to go, one at a time: about 30 s for start and measured steps;" in text
    assert "default-seed0: done after 1 s (1 of 6)" in text
    assert "direction against the paper, of 2 differences: 2 × agrees" in text
    stored = json.loads((tmp_path / "out" / "parts.json").read_text())
    assert stored == json.loads(json.dumps(found))
    assert stored["rows"][1]["changes"] == "--method.labels given"
    assert stored["configuration"]["epochs"] == 2.0
    assert "| SemPPL | 68.5 | 76.0 | 90.5 ± 0.7 |" in (tmp_path / "out" / "parts.md").read_text()
    again = go(work=never)
    assert go.trained == []
    assert again["rows"] == found["rows"]
    assert "6 of them finished" in go.text.getvalue()


def test_advice_for_a_shared_gpu_is_said(go, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "sharing_advice", lambda device, jobs: f"{jobs} on {device} take turns")
    go(flags=AblateFlags(jobs=2, out=tmp_path))
    assert "2 on cpu take turns\n" in go.text.getvalue()


def test_tables_share_cells_and_more_seeds_add_to_them(go, tmp_path):
    go(flags=AblateFlags(out=tmp_path / "out"))
    go("alpha", flags=AblateFlags(seeds=2, out=tmp_path / "out"))
    assert go.trained == ["alpha-1-seed0", "positives-0-seed1", "default-seed1", "alpha-1-seed1"]


def test_several_tables_at_once_train_what_they_share_once_and_have_a_page_each(go, tmp_path):
    found = go("parts,alpha", flags=AblateFlags(out=tmp_path / "out"))
    assert go.trained == ["default-seed0", "labels-given-seed0", "positives-0-seed0", "alpha-1-seed0"]
    assert "parts, alpha: 4 cells" in go.text.getvalue()
    assert list(found) == ["parts", "alpha"]
    alone = go("alpha", work=never, flags=AblateFlags(out=tmp_path / "out"))
    assert alone == found["alpha"]
    assert (tmp_path / "out" / "parts.md").is_file()


def test_own_rows_are_a_table_that_shares_cells_with_those_of_the_paper(go, tmp_path):
    go("parts", flags=AblateFlags(out=tmp_path / "out"))
    rows = ("method.labels=given", "method.k=2,method.tie=similarity")
    found = go("own", flags=AblateFlags(out=tmp_path / "out", rows=rows))
    assert go.trained == ["k-2-tie-similarity-seed0"]
    assert [row["changes"] for row in found["rows"]] == [
        "",
        "--method.labels given",
        "--method.k 2 --method.tie similarity",
    ]
    assert "method.labels=given against as configured, linear: −5.0: one seed" in go.text.getvalue()
    assert (tmp_path / "out" / "own.md").is_file()


def test_a_table_is_not_replaced_by_one_that_lacks_its_rows(go, tmp_path):
    out = tmp_path / "out"
    go("own", flags=AblateFlags(out=out, rows=("method.k=2",)))
    page = (out / "own.md").read_text()
    with pytest.raises(UserError, match=r"own\.md has rows that this table would not have \(method\.k=2\)"):
        go("own", work=never, flags=AblateFlags(out=out, rows=("method.k=3",)))
    assert (out / "own.md").read_text() == page
    go("own", flags=AblateFlags(out=out, rows=("method.k=3", "method.k=2")))
    assert go.trained == ["k-3-seed0"]
    go("own", work=never, flags=AblateFlags(out=out, rows=("method.k=3",), overwrite=True))
    assert "method.k=2" not in (out / "own.md").read_text()


def test_a_table_without_a_score_has_no_page_and_the_other_knows_nothing_of_its_cells(go, tmp_path):
    out = AblateFlags(out=tmp_path / "out")
    go("alpha", flags=out)

    def work(cell, slot, jobs):
        if cell.name != "labels-given-seed0":
            raise RunError("the disk is full")
        stub_work(cell, slot, jobs)

    for file in (tmp_path / "out").glob("*/evaluations/knn.json"):
        file.unlink()
    with pytest.raises(
        RunError, match=r"3 of 4 cells failed \(default-seed0, positives-0-seed0, alpha-1-seed0\)"
    ):
        go("parts,alpha", work=work, flags=out)
    assert [file.name for file in sorted((tmp_path / "out").glob("*.*"))] == ["parts.json", "parts.md"]
    page = (tmp_path / "out" / "parts.md").read_text()
    assert "- positives-0-seed0 failed: the disk is full" in page
    assert "alpha-1-seed0" not in page


def test_copies_stand_for_cells_where_the_runs_are_not(go, tmp_path):
    kept = AblateFlags(seeds=2, out=tmp_path / "out", keep=tmp_path / "kept")
    found = go(flags=kept)
    assert not list((tmp_path / "out").glob("*.md"))
    page = (tmp_path / "kept" / "parts.md").read_text()
    rmtree(tmp_path / "out")
    assert go(work=never, flags=kept) == found
    assert (tmp_path / "kept" / "parts.md").read_text() == page
    rmtree(tmp_path / "kept" / "default-seed1")
    go(flags=kept)
    assert go.trained == ["default-seed1"]


def test_cells_that_were_finished_before_are_kept_when_that_is_asked_for(go, tmp_path, monkeypatch):
    flags = AblateFlags(seeds=2, out=tmp_path / "out")
    go(flags=flags)
    rmtree(tmp_path / "out" / "positives-0-seed1")

    def killed(*_, **__):
        raise SystemExit("no power")

    monkeypatch.setattr(module, "run_cells", killed)
    with pytest.raises(SystemExit):
        go(flags=replace(flags, keep=tmp_path / "kept"))
    assert len(list((tmp_path / "kept").glob("*-seed*"))) == 5


def test_a_copy_counts_more_than_another_training_of_its_cell(go, tmp_path):
    kept = AblateFlags(out=tmp_path / "out", keep=tmp_path / "kept")
    found = go(flags=kept)
    for file in (tmp_path / "out").glob("*/evaluations/linear.json"):
        file.write_text(file.read_text().replace('"value": 9', '"value": 1'))
    assert go(work=never, flags=kept) == found


def test_a_page_beside_cells_that_are_replaced_goes_though_the_new_one_is_kept_elsewhere(go, tmp_path):
    out = tmp_path / "out"
    go(flags=AblateFlags(out=out))
    kept = AblateFlags(out=out, keep=tmp_path / "kept", overwrite=True)
    go(changes={"epochs": 3.0}, flags=kept)
    assert not list(out.glob("parts.*"))
    assert (tmp_path / "kept" / "parts.md").exists()


def test_somebodys_file_in_the_place_of_any_page_is_named_with_the_flag_that_chose_it(go, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "alpha.md").write_text("mine")
    with pytest.raises(
        UserError, match=r"kept/alpha\.md is there already and not ours: choose another --keep"
    ):
        go("parts,alpha", flags=AblateFlags(out=tmp_path / "out", keep=tmp_path / "kept"))
    assert go.trained == []


def test_how_long_an_evaluation_takes_is_not_asked_of_copies_from_elsewhere(go, tmp_path):
    kept = AblateFlags(out=tmp_path / "out", keep=tmp_path / "kept")
    go(flags=kept)
    rmtree(tmp_path / "out")
    rmtree(tmp_path / "kept" / "default-seed0")
    go(flags=kept)
    assert (
        "1 cell to go, one at a time: about 5 s for start and measured steps; reading" in go.text.getvalue()
    )


def test_a_copy_that_cannot_be_made_is_said_at_once_loses_no_cell_and_fails_at_the_end(
    go, tmp_path, monkeypatch
):
    def full(*_):
        raise RunError("no copies for --keep (disk full)")

    monkeypatch.setattr("semppl.ablate.copies.keep_", full)
    kept = AblateFlags(out=tmp_path / "out", keep=tmp_path / "kept")
    with pytest.raises(RunError, match="disk full"):
        go(flags=kept)
    assert go.trained == ["default-seed0", "labels-given-seed0", "positives-0-seed0"]
    assert "written: " in go.text.getvalue(), "what is known is shown"
    assert (
        "positives-0-seed0: done after 1 s (3 of 3), no copies for --keep (disk full)" in go.text.getvalue()
    )
    monkeypatch.undo()
    go(flags=kept, work=never)
    assert len(list((tmp_path / "kept").glob("*-seed*"))) == 3


def test_a_cell_that_fails_is_named_and_the_others_go_on(go, tmp_path):
    def work(cell, slot, jobs):
        if cell.name == "labels-given-seed1":
            raise RunError("the disk is full")
        stub_work(cell, slot, jobs)

    with pytest.raises(RunError, match=r"1 of 6 cells failed \(labels-given-seed1\): the table lacks them"):
        go(work=work)
    assert len(go.trained) == 6
    assert "labels-given-seed1: the disk is full (its log: " in go.text.getvalue().replace("\n", "")
    page = (tmp_path / "out" / "parts.md").read_text()
    assert "- − pseudo-labels: seed 1\n- labels-given-seed1 failed: the disk is full" in page
    go()
    assert go.trained == ["labels-given-seed1"]
    # the other cells took a minute each to be evaluated
    assert "1 cell to go, one at a time: about 65 s for start, measured steps and" in go.text.getvalue()
    assert "Missing" not in (tmp_path / "out" / "parts.md").read_text()


def test_a_signal_leaves_what_is_finished_and_says_how_to_go_on(go, tmp_path, monkeypatch):
    def stopped(cells, work, *, jobs, begin, ended, look, told):
        work(cells[0], 0, jobs)
        ended(End(cells[0], 1.0))
        told(1)
        ended(End(cells[1], 1.0, stopped=True))
        return signal.SIGTERM

    monkeypatch.setattr(module, "run_cells", stopped)
    with pytest.raises(Interrupted, match="stopped with 1 of 6 cells finished: the same command") as caught:
        go()
    assert caught.value.signum == signal.SIGTERM
    assert "stopping, once 1 running cell wrote what there is" in go.text.getvalue()
    assert "labels-given-seed0: stopped, and kept as far as it is" in go.text.getvalue()
    assert "- SemPPL: seed 1" in (tmp_path / "out" / "parts.md").read_text()


def test_nothing_finished_writes_no_table(go, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "run_cells", lambda *_, **__: signal.SIGINT)
    with pytest.raises(Interrupted, match="0 of 6"):
        go()
    assert not (tmp_path / "out").exists()


def test_another_configuration_is_refused_or_replaces_its_cells(go, tmp_path):
    go()
    longer = {"epochs": 3.0}
    with pytest.raises(UserError, match="was started with other values of --epochs"):
        go(changes=longer)
    assert go.trained == []
    go(changes=longer, flags=AblateFlags(seeds=2, out=tmp_path / "out", overwrite=True))
    assert len(go.trained) == 6


def stop_after(begun):
    """So many cells begin, and none of them ends."""

    def run_cells(cells, work, *, begin, **_):
        for cell in cells[:begun]:
            begin(cell)
        return signal.SIGINT

    return run_cells


@pytest.mark.parametrize("begun", [0, 1])
def test_whoever_stops_at_once_loses_the_cells_that_had_begun_and_no_other(go, tmp_path, monkeypatch, begun):
    go()
    out = tmp_path / "out"
    page = (out / "parts.md").read_text()
    monkeypatch.setattr(module, "run_cells", stop_after(begun))
    with pytest.raises(Interrupted, match="stopped with 0 of 6 cells finished"):
        go(changes={"epochs": 3.0}, flags=AblateFlags(seeds=2, out=out, overwrite=True))
    assert "6 cells to go, one at a time: about 39 s" in go.text.getvalue(), "with all steps of all of them"
    left = {file.parts[-3] for file in out.glob("*/evaluations/linear.json")}
    names = [f"{slug}-seed{seed}" for seed in (0, 1) for slug in LINEAR]
    assert left == set(names[begun:])
    # the page stays as long as all its cells do
    assert [file.name for file in sorted(out.glob("parts.*"))] == (
        [] if begun else ["parts.json", "parts.md"]
    )
    if not begun:
        assert (out / "parts.md").read_text() == page
        monkeypatch.setattr(module, "run_cells", in_this_process)
        go(work=never)


def test_a_page_whose_cells_were_measured_anew_by_somebody_goes_or_is_written_again(
    go, tmp_path, monkeypatch
):
    go()
    out = tmp_path / "out"
    for file in out.glob("*/evaluations/linear.json"):
        content = json.loads(file.read_text())
        file.write_text(json.dumps(content | {"flags": content["flags"] | {"labels": "all"}}))
    monkeypatch.setattr(module, "run_cells", stop_after(0))
    with pytest.raises(Interrupted, match="stopped with 0 of 6 cells finished"):
        go()
    assert "6 cells to go, one at a time: about 12 s" in go.text.getvalue(), "nothing is left to train"
    assert not list(out.glob("parts.*"))
    monkeypatch.setattr(module, "run_cells", in_this_process)
    go()
    assert len(go.trained) == 6
    assert (out / "parts.md").exists()


def test_steps_that_a_failed_cell_lacks_leave_the_total():
    before, whole = {"a": 2, "b": 0, "c": 0}, {"a": 10, "b": 10, "c": 10}
    now = {"a": 10, "b": 4, "c": 0}
    assert count_steps(before, now, whole, ()) == (8 + 4, 8 + 10 + 10)
    assert count_steps(before, now, whole, {"b": "why"}) == (8 + 4, 8 + 4 + 10)
    assert count_steps(before, {"a": 1, "b": 0, "c": 0}, whole, before) == (0, 0), (
        "a resumed one repeats some"
    )


def test_the_progress_goes_by_what_is_still_to_do(go, monkeypatch):
    seen = []
    monkeypatch.setattr(StageProgress, "advance", lambda self, *counts: seen.append(counts))

    def work(cell, slot, jobs):
        if cell.name == "labels-given-seed0":
            raise RunError("the disk is full")
        stub_work(cell, slot, jobs)

    with pytest.raises(RunError):
        go(work=work)
    assert seen == [(6, 36), (6, 30), (12, 30), (18, 30), (24, 30), (30, 30)]


def test_the_learning_curve_is_drawn(go, tmp_path, npz, monkeypatch):
    with pytest.raises(UserError, match="y_hidden"):  # labels of this file are withheld already
        go("labels")
    config = replace(tiny_config("digits", device="cpu", batch_size=16), epochs=0.1)

    def said():
        console = Console(file=io.StringIO(), width=500)
        run_ablate(
            config,
            "labels",
            AblateFlags(per_class=(2, 1), out=tmp_path / "curve"),
            console,
            work=stub_work,
            measure=lambda *_: 0.5,
            start=lambda: 0.0,
        )
        return (tmp_path / "curve" / "labels.md").read_text(), console.file.getvalue()

    monkeypatch.setattr("semppl.ablate.curve.drawable", lambda: False)
    page, console = said()
    assert "![" not in page
    assert NO_PICTURE in console
    monkeypatch.undo()
    page, console = said()
    assert NO_PICTURE not in console
    assert "![learning curve](labels.png)" in page
    assert (tmp_path / "curve" / "labels.png").stat().st_size > 1000
    names = {path.name for path in (tmp_path / "curve").iterdir() if path.is_dir()}
    assert names == {f"labels-{count}{more}-seed0" for count in (1, 2) for more in ("", "-positives-0")}
    assert "`semppl ablate labels digits --seed 0 --seeds 1`" in page


def test_somebodys_own_files_and_runs_are_left_alone(go, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "parts.png").touch()
    with pytest.raises(UserError, match=r"parts\.png is there already and not ours"):
        go()
    (out / "parts.png").unlink()
    (out / "parts.md").write_text("mine")
    with pytest.raises(UserError, match=r"parts\.md is there already and not ours"):
        go()
    (out / "config.yaml").touch()
    with pytest.raises(UserError, match="is a run: choose another --out"):
        go()
    assert sorted(path.name for path in out.iterdir()) == ["config.yaml", "parts.md"]


def test_what_the_machine_lacks_is_refused(go):
    with pytest.raises(UserError, match="bf16 is for GPUs"):
        go(changes={"precision": "bf16"})
    with pytest.raises(UserError, match="oracle labels need --labels-per-class"):
        go("oracle")
