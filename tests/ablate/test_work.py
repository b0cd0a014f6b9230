from dataclasses import replace

import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config

import semppl.ablate.work as module
from semppl.ablate.cell import Cell, score_of
from semppl.ablate.work import placed, threads_for, work
from semppl.config import Config
from semppl.core.errors import UserError
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.train.prepare import load_for, resolved_for


@pytest.fixture
def make(npz, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "speak_into", lambda log: None)
    monkeypatch.setattr(module, "threads_for", lambda jobs: 1)

    def make_cell(name, **method):
        config = tiny_config(npz, device="cpu")
        config = replace(config, method=replace(config.method, **method))
        dataset = load_for(config, torch.device("cpu"))
        return Cell(name, resolved_for(config, dataset), tmp_path / name, len(dataset.labels_M))

    return make_cell


def test_a_cell_trains_and_is_evaluated_once_and_goes_on_from_what_is_there(make, capsys):
    cell = make("default-seed0")
    work(cell, 0, 1)
    score = score_of(cell)
    assert 0 <= score.pseudo <= 100
    assert "12 test images" in score.protocols["linear"]
    weights = (cell.run.checkpoints / "step-00000006.ckpt").read_bytes()
    # stopped after its training: nothing is trained again
    (cell.run.evaluations / "linear.json").unlink()
    capsys.readouterr()
    work(cell, 0, 1)
    assert "going on from step 6 of 6" in capsys.readouterr().out
    assert score_of(cell).linear == score.linear
    # somebody measured it in another way: it is measured again
    by_hand = EvaluateFlags(labels="all", device="cpu", workers=0, overwrite=True)
    run_evaluate([cell.path], by_hand, Console(quiet=True))
    assert score_of(cell) is None
    work(cell, 0, 1)
    again = score_of(cell)
    assert (again.linear, again.knn, again.protocols) == (score.linear, score.knn, score.protocols)
    assert (cell.run.checkpoints / "step-00000006.ckpt").read_bytes() == weights
    without = make("positives-0-seed0", positives=0)
    work(without, 0, 1)
    assert score_of(without).pseudo is None
    other = replace(cell, config=replace(cell.config, epochs=3.0))
    with pytest.raises(UserError, match="other values of --epochs"):
        work(other, 0, 1)


def test_cells_share_the_cores_and_take_turns_over_gpus(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    assert [threads_for(jobs) for jobs in (1, 3, 20)] == [8, 2, 1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)  # OMP_NUM_THREADS
    assert [threads_for(jobs) for jobs in (1, 3, 20)] == [4, 1, 1]
    monkeypatch.setattr(module, "choose_workers", lambda config, device: 8)
    monkeypatch.setattr(module, "choose_device", lambda name: torch.device("cpu"))
    config = Config()
    assert placed(config, 0, 1) == config
    assert placed(config, 0, 2).data.workers == 4
    assert placed(config, 0, 20).data.workers == 1
    given = replace(config, data=replace(config.data, workers=3))
    assert placed(given, 0, 2) == given
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [placed(config, slot, 1).device for slot in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert placed(replace(config, device="cpu"), 1, 1).device == "cpu"
