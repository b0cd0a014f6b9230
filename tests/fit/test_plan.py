from dataclasses import replace

import pytest
import torch

from semppl.config import DataConfig, MethodConfig, NetConfig, ViewsConfig
from semppl.core.errors import UserError
from semppl.fit import plan
from semppl.fit.plan import planned
from semppl.presets import fit
from semppl.train.estimate import Estimate
from semppl.train.prepare import load_for

CPU = torch.device("cpu")


@pytest.fixture
def given(class_folders):
    config = fit().__class__(
        **{**vars(fit()), "source": str(class_folders), "data": DataConfig(labels_per_class=3)}
    )
    return config, load_for(config, CPU)


def test_the_minutes_become_epochs(given, monkeypatch):
    monkeypatch.setattr(plan, "estimate", lambda *_, **__: Estimate(batch_size=4, seconds_per_step=0.5))
    config, lines = planned(*given, CPU, minutes=10)
    # 180 s are 360 steps of 4 images, of 36 each epoch
    assert (config.epochs, config.batch_size) == (40, 4)
    assert "40 epochs, about 3 min" in lines[2]
    assert config.views.colour is False, "stripes are grey"
    config, lines = planned(*given, CPU, minutes=1)
    assert lines[-1].startswith("4 epochs are few: ")
    _, lines = planned(replace(given[0], epochs=1.0), *given[1:], CPU, minutes=1)
    assert "; 1 epoch, about" in lines[2]
    assert lines[-1].startswith("1 epoch is few: ")


def test_the_peak_of_the_rate_is_that_of_the_batch_which_fits(given, monkeypatch):
    tried = []

    def halved(config, *_, **__):
        tried.append(config.batch_size)
        return Estimate(batch_size=config.batch_size // 2, seconds_per_step=0.5)

    monkeypatch.setattr(plan, "estimate", halved)
    config, _ = planned(*given, CPU, minutes=10)
    assert (tried, config.batch_size) == ([4], 2)
    assert config.optim.base_lr * config.batch_size / 256 == pytest.approx(0.002)


def test_the_step_that_is_timed_has_the_queue_of_the_run(given, monkeypatch):
    tried = []

    def spy(config, *_, **__):
        tried.append(config.method.queue_capacity)
        return Estimate(batch_size=4, seconds_per_step=0.5)

    monkeypatch.setattr(plan, "estimate", spy)
    config, _ = planned(*given, CPU, minutes=10)
    # 64 for each of three classes, and not 20 batches
    assert tried == [config.method.queue_capacity] == [192]


def test_epochs_of_the_user_stay(given, monkeypatch):
    monkeypatch.setattr(plan, "estimate", lambda *_, **__: Estimate(batch_size=4, seconds_per_step=0.5))
    config, dataset = given
    asked = type(config)(**{**vars(config), "epochs": 3.5})
    assert planned(asked, dataset, CPU, minutes=10)[0].epochs == 3.5


def test_three_of_four_ballots_are_asked_for_and_said(given, monkeypatch):
    monkeypatch.setattr(plan, "estimate", lambda *_, **__: Estimate(batch_size=4, seconds_per_step=0.5))
    config, lines = planned(*given, CPU, minutes=10)
    assert (config.method.minimum_votes, config.num_ballots) == (3, 4)
    assert "3 of 4 ballots for a pseudo-label" in "\n".join(lines)


def test_uneven_labels_are_balanced_and_even_ones_stay_as_they_are(given, monkeypatch):
    monkeypatch.setattr(plan, "estimate", lambda *_, **__: Estimate(batch_size=4, seconds_per_step=0.5))
    config, dataset = given
    assert planned(config, dataset, CPU, minutes=10)[0].data.balance_labels is False
    # of the first class three labels, of another one
    labels_M = dataset.labels_M.clone()
    labels_M[labels_M > 1] = -1
    labels_M[(labels_M == 1).nonzero()[1:]] = -1
    uneven, lines = planned(config, replace(dataset, labels_M=labels_M), CPU, minutes=10)
    assert uneven.data.balance_labels is True
    assert "classes equally often among its labels" in lines[2]


@pytest.mark.parametrize(
    ("flag", "zero"),
    [
        ("--batch-size", {"batch_size": 0}),
        ("--views.large-size", {"views": ViewsConfig(large_size=0)}),
        ("--net.head-hidden", {"net": NetConfig(head_hidden=0)}),
        ("--method.queue-capacity", {"method": MethodConfig(queue_capacity=0)}),
    ],
)
def test_nothing_is_chosen_in_the_place_of_a_zero(given, flag, zero):
    config, dataset = given
    with pytest.raises(UserError, match=f"{flag} is 0: it must be at least "):
        planned(replace(config, **zero), dataset, CPU, minutes=10)


def test_no_time_is_refused(given):
    with pytest.raises(UserError, match="--minutes is 0"):
        planned(*given, CPU, minutes=0)
