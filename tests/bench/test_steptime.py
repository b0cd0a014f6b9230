from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from semppl.bench.steptime import time_step
from semppl.bench.workload import build_workload
from semppl.train.build import build_step

PHASES = [
    "photometric",
    "online forward",
    "target forward",
    "queue",
    "k-NN",
    "positives",
    "loss",
    "backward",
    "optimiser",
    "target update",
    "feed",
]


@pytest.fixture
def folder(tmp_path):
    for i in range(5):
        pixels = np.random.default_rng(i).integers(0, 256, (20, 15, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    return tmp_path


def test_a_step_is_taken_apart(tiny, folder):
    kept = []
    settings = replace(tiny, images=folder)
    result = time_step(settings, lambda words: None, lambda figures: kept.append(dict(figures)))
    assert list(result["phases_ms"]) == PHASES
    assert all(ms > 0 for ms in result["phases_ms"].values())
    ms = result["ms"]
    assert result["step_over_floor"] == ms["semppl"] / ms["floor"]
    assert result["semppl_over_relicv2"] == ms["semppl"] / ms["relicv2"] - 1
    assert result["images_per_second"] == pytest.approx(4000 / ms["semppl"])
    assert result["speed"] == "eager"
    files = result["from_files"]
    assert files["files"] == 5
    assert files["share_of_resident_rate"] == pytest.approx(ms["semppl"] / files["ms"])
    assert files["feed_alone_images_per_second"] > 0
    assert len(kept) == 1
    assert "from_files" not in kept[0]


def test_the_timed_step_is_the_training_step(tiny):
    workload = build_workload(tiny)
    marks = []
    training = workload.training
    outcome = build_step(training.state, training.plan, training.speed, marks.append)(training.feed(0))
    assert workload.training.state.step == 1
    assert outcome.votes is not None
    assert marks == PHASES[:-1]
