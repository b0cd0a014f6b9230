from dataclasses import replace

import pytest
import torch

from semppl.evaluate.exam import final_exam, validation_exam
from semppl.fit import supervised as module
from semppl.fit.supervised import fresh, supervised


def test_the_start_is_that_of_pre_training(desk):
    one, two = fresh(desk, pretrained=True), fresh(desk, pretrained=True)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_the_baseline_is_from_scratch_whatever_pre_training_started_from(desk, monkeypatch):
    asked = []

    def build(config, *_):
        asked.append(config.net.pretrained)
        raise LookupError

    monkeypatch.setattr(module, "build_state", build)
    known = replace(desk, config=replace(desk.config, net=replace(desk.config.net, pretrained=True)))
    for pretrained in (True, False):
        with pytest.raises(LookupError):
            fresh(known, pretrained=pretrained)
    assert asked == [True, False]


def test_the_baseline_sees_the_training_labels_alone(desk, monkeypatch):
    seen, original = [], module.train_supervised_

    def spy(encoder, images, labels, **options):
        seen.append((len(images), labels.tolist(), options["steps"]))
        return original(encoder, images, labels, **options)

    monkeypatch.setattr(module, "train_supervised_", spy)
    monkeypatch.setattr(module, "_FEWEST", 4)
    monkeypatch.setattr(module, "_MOST", 4)
    row = supervised(desk, final_exam(desk.dataset), validation_exam(desk.dataset), seconds=1.0)
    assert [steps for _, _, steps in seen] == [4, 4], "timed first"
    assert seen[-1][0] == 12
    assert seen[-1][1] == desk.dataset.labels_M[desk.dataset.labelled_L].tolist()
    assert (row.name, row.way, len(row.right_N)) == ("supervised only", "own head", 21)
    assert row.seconds > 0
