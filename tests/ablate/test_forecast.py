import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.ablate.stubs import make_cell

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


def ask(cells, jobs=1, device=CPU, *, start=0.0, evaluation=None, to_go=None):
    measured = []

    def measure(config, dataset, where):
        measured.append(config)
        return 2.0 if config.method.positives else 1.0

    shelf = SimpleNamespace(get=lambda config: None)
    left = [(cell, cell.steps if to_go is None else to_go) for cell in cells]
    found = forecast(
        cells[0].config, left, shelf, device, jobs, evaluation, start=lambda: start, measure=measure
    )
    return found, measured


def test_a_step_of_each_kind_is_measured_once(cells):
    found, measured = ask(cells)
    assert len(measured) == 2
    # 8 + 8 + 16 steps of two seconds, 8 of one
    assert found == Forecast(72.0, 4, 1)
    assert torch.get_num_threads() == 1


def test_only_steps_that_are_to_go_count_and_none_is_measured_where_none_is(cells):
    assert ask(cells[:2], to_go=3)[0].seconds == 3 * 2 + 3 * 2
    found, measured = ask(cells[:2], to_go=0, start=5.0)
    assert (found.seconds, measured) == (10.0, [])


def test_each_cell_pays_for_its_start_and_for_an_evaluation_where_it_is_known(cells):
    assert ask(cells, start=7.0)[0] == Forecast(72.0 + 4 * 7, 4, 1)
    assert ask(cells, start=7.0, evaluation=3.0)[0] == Forecast(72.0 + 4 * (7 + 3), 4, 1, evaluated=True)
    assert ask(cells, jobs=2, start=7.0)[0].seconds == (72.0 + 4 * 7) / 2


def test_the_start_is_that_of_the_process_of_a_cell(monkeypatch):
    asked, clock = [], iter((10.0, 12.5))
    monkeypatch.setattr(module.subprocess, "run", lambda command, **how: asked.append((command, how)))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    assert module.seconds_to_start() == 2.5
    assert asked == [
        ([sys.executable, "-c", "import semppl.ablate.work"], {"check": True, "capture_output": True})
    ]


def test_several_at_a_time_share_the_work_but_not_a_single_cell(cells, monkeypatch):
    assert ask(cells, jobs=2)[0].seconds == 36.0
    assert ask(cells[:1], jobs=2)[0].seconds == 16.0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert ask(cells, jobs=2, device=GPU)[0].seconds == 80.0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert ask(cells, jobs=4, device=GPU)[0].seconds == 40.0


def test_on_a_gpu_methods_have_the_same_step(cells):
    found, measured = ask(cells, device=GPU)
    assert measured == [cells[0].config]
    # 8 + 8 + 16 + 8 steps of two seconds
    assert found.seconds == 80.0


def test_words():
    assert str(Forecast(30.0, 1, 1)) == (
        "1 cell to go, one at a time: about 30 s for start and measured steps; "
        "reading data, exhibit and evaluation come on top"
    )
    assert str(Forecast(300.0, 9, 2, evaluated=True)) == (
        "9 cells to go, 2 at a time: about 5 min for start, measured steps and evaluation; "
        "reading data and exhibit come on top"
    )
    assert [duration(seconds) for seconds in (89, 90, 5399, 5400)] == ["89 s", "2 min", "90 min", "1.5 h"]


def test_a_step_is_measured_with_the_batch_of_the_configuration(monkeypatch):
    seen = {}

    def estimate(config, dataset, device, *, fixed_batch):
        seen["fixed"] = fixed_batch
        return SimpleNamespace(seconds_per_step=0.25)

    monkeypatch.setattr(module, "estimate", estimate)
    assert module.seconds_per_step(None, None, CPU) == 0.25
    assert seen == {"fixed": True}
