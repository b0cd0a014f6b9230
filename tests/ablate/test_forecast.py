import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.ablate.stubs import make_cell, metrics_row

import semppl.ablate.forecast as module
from semppl.ablate.forecast import Forecast, duration, forecast

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def cells(tmp_path):
    first = make_cell(tmp_path, "default-seed0")
    again = replace(first, name="default-seed1", config=replace(first.config, seed=1), path=tmp_path / "b")
    longer = replace(first, name="epochs-4-seed0", config=replace(first.config, epochs=4.0))
    method = replace(first.config.method, positives=0)
    without = replace(first, name="positives-0-seed0", config=replace(first.config, method=method))
    return [first, again, longer, without]


def ask(cells, jobs=1, device=CPU):
    measured = []

    def measure(config, dataset, where):
        measured.append(config)
        return 2.0 if config.method.positives else 1.0

    plan, shelf = SimpleNamespace(base=cells[0].config), SimpleNamespace(get=lambda config: None)
    return forecast(plan, cells, shelf, device, jobs, measure), measured


def test_a_step_of_each_kind_is_measured_once(cells):
    found, measured = ask(cells)
    assert len(measured) == 2
    # 8 + 8 + 16 steps of two seconds, 8 of one
    assert found == Forecast(72.0, 4, 1)
    assert torch.get_num_threads() == 1


def test_steps_that_are_done_do_not_count(cells):
    cells[1].path.mkdir()
    cells[1].run.metrics.write_text(json.dumps(metrics_row(6)) + "\n")
    assert ask(cells[:2])[0].seconds == 8 * 2 + 2 * 2


def test_several_at_a_time_share_the_work_but_not_a_single_cell(cells, monkeypatch):
    assert ask(cells, jobs=2)[0].seconds == 36.0
    assert ask(cells[:1], jobs=2)[0].seconds == 16.0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert ask(cells, jobs=2, device=GPU)[0].seconds == 72.0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert ask(cells, jobs=4, device=GPU)[0].seconds == 36.0


def test_words():
    assert "1 cell to train, one at a time: about 30 s of pre-training" in str(Forecast(30.0, 1, 1))
    assert "9 cells to train, 2 at a time: about 5 min" in str(Forecast(300.0, 9, 2))
    assert [duration(seconds) for seconds in (89, 90, 5399, 5400)] == ["89 s", "2 min", "90 min", "1.5 h"]


def test_a_step_is_measured_with_the_batch_of_the_configuration(monkeypatch):
    seen = {}

    def estimate(config, dataset, device, *, fixed_batch):
        seen["fixed"] = fixed_batch
        return SimpleNamespace(seconds_per_step=0.25)

    monkeypatch.setattr(module, "estimate", estimate)
    assert module.seconds_per_step(None, None, CPU) == 0.25
    assert seen == {"fixed": True}
