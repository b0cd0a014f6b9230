"""docs/two_cores.py: what it undoes is undone."""

import importlib
from pathlib import Path

import pytest
import torch

from semppl.bench.settings import BenchFlags, filled
from semppl.bench.workload import build_workload
from semppl.method import losses
from semppl.train import build
from semppl.views import photometric


@pytest.fixture
def script(monkeypatch):
    """What it changes is as before after a test."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs")
    script = importlib.import_module("two_cores")
    for module, name in (
        (build, "memory_layout"),
        (build, "AdamW"),
        (photometric, "augment_on_cpu"),
        (losses, "all_pairs_pay"),
        (script, "keep_freed_memory_"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    return script


def seen(script, monkeypatch, way):
    """What a step does then."""
    done = set()

    def noting(name, function):
        def noted(*given):
            done.add(name)
            return function(*given)

        return noted

    monkeypatch.setattr(script, "keep_freed_memory_", lambda: done.add("memory"))
    # the way of small images
    monkeypatch.setattr(photometric, "augment_at_once", noting("colours", photometric.augment_at_once))
    monkeypatch.setattr(losses, "of_negatives", noting("pairs", losses.of_negatives))
    script.undo_(way)
    flags = BenchFlags(
        encoder="resnet10",
        width=0.1,
        image_size=8,
        batch_size=8,
        queue=16,
        classes=2,
        large=2,
        small=0,
        optimiser="adamw",
        device="cpu",
    )
    training = build_workload(filled(flags, "cpu"), negatives=4).training
    training.step(training.feed(0))
    weights = [each for each in training.state.online.parameters() if each.ndim == 4]
    if all(each.is_contiguous(memory_format=torch.channels_last) for each in weights):
        done.add("layout")
    if training.state.optimizer.defaults["fused"]:
        done.add("optimiser")
    return done


MEASURES = {"layout", "memory", "colours", "optimiser", "pairs"}


@pytest.mark.parametrize("way", ["nothing", *sorted(MEASURES), "all"])
def test_each_way_undoes_its_measure_alone(script, monkeypatch, way):
    undone = {way} & MEASURES or (MEASURES if way == "all" else set())
    assert seen(script, monkeypatch, way) == MEASURES - undone


def test_all_ways_are_rows_of_the_table(script):
    assert {*script.WAYS} == {*MEASURES, "nothing", "all"}
