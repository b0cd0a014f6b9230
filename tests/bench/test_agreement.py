from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.core.recorders import PlainRecorder

import semppl.bench.agreement as agreement
from semppl.bench.agreement import crops_agree, neighbours_agree, recording_agrees, teaching_agrees
from semppl.method.pseudo_labels import nearest
from semppl.train.capture import CapturedStep


def test_exact_neighbours_agree_with_float64(tiny):
    assert neighbours_agree(tiny) == {"nearest_neighbours": 1.0, "pseudo_labels": 1.0}


def test_neighbours_in_coarse_numbers_are_noticed(tiny, monkeypatch):
    def coarse(queries_RD, keys_CD, labels_C, k, **options):
        return nearest(queries_RD.bfloat16().float(), keys_CD.bfloat16().float(), labels_C, k)

    monkeypatch.setattr(agreement, "nearest", coarse)
    settings = replace(tiny, queue=20_000, batch_size=200)
    assert 0.9 < neighbours_agree(settings)["nearest_neighbours"] < 1.0


def test_wrong_neighbours_are_noticed(tiny, monkeypatch):
    def wrong(queries_RD, keys_CD, labels_C, k, **options):
        return torch.zeros(len(queries_RD), 1), labels_C[: len(queries_RD), None]

    monkeypatch.setattr(agreement, "nearest", wrong)
    assert neighbours_agree(tiny)["nearest_neighbours"] < 0.9


@pytest.mark.parametrize("wrong", [False, True])
def test_a_recording_that_does_something_else_is_noticed(tiny, monkeypatch, wrong):
    monkeypatch.setattr(agreement, "_small", lambda settings: settings)
    options = {"warm_up": 1, "recorder": PlainRecorder()}
    monkeypatch.setattr(agreement, "CapturedStep", partial(CapturedStep, **options))
    if wrong:
        monkeypatch.setattr(CapturedStep, "_set_tick_", lambda self: None)
    monkeypatch.setattr(agreement, "OPTIMISERS", ("lars",))
    result = recording_agrees(tiny, steps=3)["lars"]
    assert result["again"] == 0.0
    assert (result["recorded"] > 1e-3) is wrong


class Idle(PlainRecorder):
    """A replay that does nothing."""

    def record(self, work, generators):
        outcome = work()
        return lambda: outcome


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("recorder", "wrong"), [(PlainRecorder, False), (Idle, True)])
def test_a_recorded_lesson_that_does_something_else_is_noticed(tiny, monkeypatch, recorder, wrong, short):
    monkeypatch.setattr(agreement, "_small", lambda settings: replace(settings, batch_size=8))
    monkeypatch.setattr(agreement, "CudaRecorder", lambda device: recorder())
    result = teaching_agrees(tiny, steps=6, short=short)
    assert result["again"] == 0.0
    assert (result["recorded"] > 1e-3) is wrong


def test_crops_on_the_same_device_are_the_same():
    assert crops_agree(torch.device("cpu")) == {"largest_difference": 0.0, "share_equal": 1.0}
