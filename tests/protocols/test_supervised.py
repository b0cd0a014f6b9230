from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.conftest import stripes, tiny_config
from torch.nn import functional as F

from semppl.config import DataConfig, ViewsConfig
from semppl.core.rundir import RunDirectory
from semppl.protocols import supervised as module
from semppl.protocols.supervised import fresh, supervised
from semppl.train.pretrain import pretrain


@pytest.fixture
def learnt(monkeypatch):
    """What was trained: the encoder as it was, the first batch, and how."""
    calls, real = [], module.train_by_sgd

    def spy(encoder, examples, **how):
        before = {name: value.clone() for name, value in encoder.state_dict().items()}
        calls.append((before, examples(0), how))
        return real(encoder, examples, **{**how, "steps": 2})

    monkeypatch.setattr(module, "train_by_sgd", spy)
    return calls


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run on images of 16 px, which are shifted: 12 of 3 classes, all labelled, and 6 for testing."""
    folder = tmp_path_factory.mktemp("small")
    y = np.arange(12) % 3
    x, x_test = stripes(y, size=16), stripes(y[:6], size=16, seed=1)
    np.savez(folder / "x.npz", x=x, y=y, x_test=x_test, y_test=y[:6])
    config = tiny_config(
        folder / "x.npz",
        data=DataConfig(labels_per_class=3),
        views=ViewsConfig(large=2, small=1, flip=0.0),
        batch_size=12,
        epochs=1.0,
    )
    run = RunDirectory(folder / "run")
    pretrain(config, run, console=Console(quiet=True))
    return run


def test_the_start_is_that_of_pre_training(subject):
    desk = subject.desk
    one, two = fresh(desk, pretrained=True), fresh(desk, pretrained=True)
    other = fresh(desk, pretrained=False, seed=desk.config.seed + 1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_random_weights_are_random_whatever_pre_training_started_from(subject, monkeypatch):
    desk, known = subject.desk, []

    def build(config, _):
        known.append(config.net.pretrained)
        raise LookupError

    monkeypatch.setattr(module, "build_networks", build)
    timm = replace(desk, config=replace(desk.config, net=replace(desk.config.net, pretrained=True)))
    for pretrained in (True, False):
        with pytest.raises(LookupError):
            fresh(timm, pretrained=pretrained)
    assert known == [True, False]


def test_all_given_labels_train_a_network_that_knows_nothing_of_the_run(trained, subject_of, learnt):
    subject = subject_of(trained, seeds=2, seed=4)
    outcome = supervised(subject)
    for seed, (before, (views, labels), how) in zip((4, 5), learnt, strict=True):
        expected = fresh(subject.desk, pretrained=False, seed=seed).state_dict()
        assert all(torch.equal(value, before[name]) for name, value in expected.items())
        # 15 labels are one batch: 3,000 steps are 3,000 epochs
        assert (how["steps"], how["batch_size"], how["seed"]) == (3000, 15, seed)
        assert sorted(labels.tolist()) == [0] * 5 + [1] * 5 + [2] * 5
        assert views.shape == (15, 3, 8, 8)
    stored = subject.online.encoder.state_dict()
    assert not any(torch.equal(before["conv1.weight"], stored["conv1.weight"]) for before, *_ in learnt)
    assert outcome.settings["epochs"] == 3000
    assert outcome.settings["seeds"] == [4, 5]
    assert outcome.numbers[0].deviation is not None
    assert "resnet10 from random weights" in outcome.protocol
    assert "15 given labels; 30 test images; 2 seed(s)" in outcome.protocol
    assert "crops of 20% to 100% and flips" in outcome.protocol, "8 px are too few to shift"


def test_epochs_can_be_said(trained, subject_of, learnt):
    assert supervised(subject_of(trained, epochs=7)).settings["steps"] == 7
    assert learnt[0][2]["steps"] == 7


def test_small_images_are_shifted_and_stay_sharp(small, subject_of, learnt):
    subject = subject_of(small)
    outcome = supervised(subject)
    (_, (views, labels), _), desk = learnt[0], subject.desk
    assert "shifts by up to 2 px;" in outcome.protocol, "without flips, as the run"
    mean, std = desk.statistics
    pixels = (views * std[:, None, None] + mean[:, None, None]) * 255
    assert torch.allclose(pixels, pixels.round(), atol=1e-3)
    given = desk.dataset.images[desk.dataset.labelled_L].float()
    wide = F.pad(given, (2, 2, 2, 2), mode="reflect")
    every = torch.stack([wide[:, :, i : i + 16, j : j + 16] for i in range(5) for j in range(5)])
    moved = (every[:, :, None] - pixels.round()).abs().amax((3, 4, 5)) == 0  # moves × images × views
    assert moved.any((0, 1)).all(), "each is an image that was moved, and not flipped"
    assert moved.any(0).any(1).all(), "all labels are seen"
    assert not moved[12].any(0).all(), "and not all of them in their place"
    assert torch.equal(labels, desk.dataset.labels_M[desk.dataset.labelled_L][moved.any(0).int().argmax(0)])


def test_it_is_a_function_of_the_seed(small, subject_of, learnt):
    one, two = supervised(subject_of(small)), supervised(subject_of(small))
    assert one == two
    assert torch.equal(learnt[0][1][0], learnt[1][1][0])
    supervised(subject_of(small, seed=1))
    assert not torch.equal(learnt[0][1][0], learnt[2][1][0])
