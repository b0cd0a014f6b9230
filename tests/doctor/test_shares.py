from dataclasses import replace

import pytest

import semppl.doctor.shares as module
from semppl.doctor.probe import Steps
from semppl.doctor.shares import Share, losses, rows_of, time_share
from semppl.doctor.trials import Probed, Trial

FEW, MANY = Steps(2, (3.0,), 0.0, 0), Steps(4, (5.0,), 0.0, 0)


def on_cpu(largest):
    return Probed(steps=MANY, few=FEW, largest=largest, refused=True)


@pytest.fixture
def trial(make_trial, npz):
    return make_trial(npz)


@pytest.fixture
def asked(monkeypatch):
    """Attempts on a GPU that need a tenth of a second for each image."""
    calls = []

    def attempt(self, batch, *, parts=None, **how):
        calls.append((batch, parts, how["recorded"], how["fed"]))
        return Steps(batch, (0.1 * batch,), 0.0, 0)

    monkeypatch.setattr(Trial, "attempt", attempt)
    return calls


def test_a_batch_that_was_measured_is_not_measured_again(trial, asked):
    probed = Probed(steps=Steps(16, (7.0,), 0.0, 0), largest=16, refused=False)
    assert time_share(trial, probed, 1) == Share(7.0, "measured")
    assert asked == []


def test_a_cpus_share_is_scaled_and_cut_where_it_does_not_fit(trial, asked):
    assert time_share(trial, on_cpu(16), 1) == Share(pytest.approx(17.0), "scaled")
    assert time_share(trial, on_cpu(16), 2) == Share(pytest.approx(9.0), "scaled")
    assert time_share(trial, on_cpu(4), 2) == Share(pytest.approx(1.29 * 9.0), "in parts", 4)
    assert asked == []


def test_parts_of_the_user_were_measured_as_parts(make_trial, npz):
    trial = make_trial(npz, micro_batch=4)
    assert time_share(trial, on_cpu(4), 1) == Share(pytest.approx(17.0), "scaled", 4)


def test_a_gpus_share_is_measured_as_ranks_run_it(trial, asked):
    probed = Probed(steps=Steps(16, (7.0,), 0.0, 0), largest=16, refused=False)
    assert time_share(trial, probed, 4) == Share(pytest.approx(0.4), "measured")
    assert time_share(trial, replace(probed, loader=50.0), 4).how == "measured"
    assert asked == [(4, None, False, True), (4, None, False, False)]


def test_a_gpus_share_that_does_not_fit_is_measured_in_parts(trial, asked):
    probed = Probed(steps=Steps(6, (7.0,), 0.0, 0), largest=6, refused=True)
    # 16 rows in parts of 4
    assert time_share(trial, probed, 1) == Share(pytest.approx(1.6), "in parts", 4)
    assert asked == [(4, 4, True, True)]


def test_a_share_is_at_least_two_rows(trial):
    assert [rows_of(trial, world) for world in (1, 3, 8, 16)] == [16, 6, 2, 2]


def test_the_loss_of_the_whole_batch_comes_on_top_of_several_ranks_alone(trial, monkeypatch):
    monkeypatch.setattr(module, "time_loss", lambda training, config, rows: 0.01 * rows)
    assert losses(trial, [1, 2, 8]) == pytest.approx({1: 0.0, 2: 0.08, 8: 0.14})


def test_a_loss_that_does_not_fit_is_left_out(trial, monkeypatch):
    monkeypatch.setattr(module, "tried", lambda *_: None)
    assert losses(trial, [1, 8]) == {1: 0.0, 8: 0.0}
