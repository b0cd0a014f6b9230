from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.conftest import stripes, tiny_config
from torch.nn import functional as F

from semppl.config import DataConfig, ViewsConfig
from semppl.core.rundir import RunDirectory
from semppl.protocols import consistency, hard
from semppl.protocols import desk as desk_module
from semppl.protocols import supervised as module
from semppl.protocols.desk import Desk
from semppl.protocols.hard import hard_view
from semppl.protocols.supervised import fresh, supervised
from semppl.protocols.task import Labels
from semppl.train.prepare import load_for
from semppl.train.pretrain import pretrain

CPU = torch.device("cpu")


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


def with_views(subject, **changes):
    config = subject.desk.config
    config = replace(config, views=replace(config.views, **changes))
    return replace(subject, desk=replace(subject.desk, config=config))


def test_random_weights_are_random_whatever_pre_training_started_from(subject, monkeypatch):
    desk, known = subject.desk, []

    def build(config, _):
        known.append((config.net.pretrained, config.seed))
        raise LookupError

    monkeypatch.setattr(module, "build_networks", build)
    timm = replace(desk, config=replace(desk.config, net=replace(desk.config.net, pretrained=True), seed=7))
    for start in (
        lambda: fresh(timm, pretrained=True),
        lambda: fresh(timm, pretrained=False),
        lambda: fresh(timm, pretrained=True, seed=0),
        lambda: fresh(desk, pretrained=True),
        lambda: supervised(replace(subject, desk=timm)),
    ):
        with pytest.raises(LookupError):
            start()
    assert known == [(True, 7), (False, 7), (True, 0), (False, 0), (False, 0)]


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
    assert outcome.settings == {
        "batch_size": 15,
        "rate": 0.1 * 15 / 128,
        "weight_decay": 5e-4,
        "epochs": 3000,
        "steps": 3000,
        "seeds": [4, 5],
    }
    assert "rate 0.1 · 15/128 falling" in outcome.protocol
    assert "resnet10 from random weights" in outcome.protocol
    assert "15 given labels; 30 test images; 2 seeds" in outcome.protocol
    assert "weight decay 0.0005, 3000 epochs, 3,000 steps; no" in outcome.protocol
    assert "crops of 20% to 100% and flips" in outcome.protocol, "8 px are too few to shift"


def test_with_consistency_all_images_train_a_network_that_knows_nothing_of_the_run(
    trained, subject_of, monkeypatch
):
    starts, real = [], consistency.teach

    def spy(desk, encoder, fit, lot, plan, **how):
        starts.append(({name: value.clone() for name, value in encoder.state_dict().items()}, fit, lot))
        return real(desk, encoder, fit, lot, plan, **how)

    monkeypatch.setattr(consistency, "teach", spy)
    subject = subject_of(trained, consistency=True, epochs=2, seeds=2, seed=4, sure=0.5)
    outcome = supervised(subject)
    for seed, (before, fit, lot) in zip((4, 5), starts, strict=True):
        expected = fresh(subject.desk, pretrained=False, seed=seed).state_dict()
        assert all(torch.equal(value, before[name]) for name, value in expected.items())
        assert not fit.weight_YF.any()
        assert not fit.bias_Y.any()
        assert (len(lot.given.labels_N), len(lot.index_N)) == (15, 21)
    words = "resnet10 from random weights, trained with consistency: 21 unlabelled images, P = 0.5, 2 epochs"
    assert outcome.protocol.startswith(words)
    assert "a linear classifier that starts with zeros; easy views" in outcome.protocol
    assert "; no setting was chosen; 15 given labels; 30 test images; 2 seeds" in outcome.protocol
    assert outcome.settings["strength_of_the_start"] == 0
    assert [curve["seed"] for curve in outcome.details["consistency"]] == [4, 5]


def test_epochs_can_be_said_and_are_those_of_images(trained, subject_of, learnt, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 6)
    settings = supervised(subject_of(trained, epochs=7)).settings
    assert (settings["epochs"], settings["steps"]) == (7, 18), "7 · 15/6 are 17 and a half"
    assert learnt[0][2]["steps"] == 18


def test_every_seed_is_marked(trained, subject_of, learnt, monkeypatch):
    subject = subject_of(trained, seeds=2)
    truth, asked = subject.task.truth_N, []

    def logits(desk, model, images):
        asked.append(images is subject.task.exam.images)
        return F.one_hot((truth + len(asked) - 1) % 3, 3).float()  # all right, then all wrong

    monkeypatch.setattr(Desk, "logits", logits)
    outcome = supervised(subject)
    assert asked == [True, True]
    assert [metrics["top1"] for metrics in outcome.details["metrics"]] == [1.0, 0.0]
    # √((50² + 50²)/1)
    assert (outcome.numbers[0].value, outcome.numbers[0].deviation) == (50.0, pytest.approx(70.7107))


def test_a_single_label_is_shown_twice(subject, learnt):
    one_M = torch.full_like(subject.desk.dataset.labels_M, -1)
    one_M[20] = 1
    labels = Labels(torch.tensor([20]), torch.tensor([]), one_M, "given")
    subject.__dict__["task"] = replace(subject.task, labels=labels)
    assert supervised(subject).settings["batch_size"] == 2
    assert learnt[0][1][1].tolist() == [1, 1]


def test_withheld_labels_train_too_where_all_are_asked_for(trained, subject_of, learnt, monkeypatch):
    given, real = [], Desk.examples

    def spy(desk, index, labels, **how):
        given.append((index.tolist(), labels.tolist(), how))
        return real(desk, index, labels, **how)

    monkeypatch.setattr(Desk, "examples", spy)
    subject = subject_of(trained, labels="all", seed=4)
    outcome = supervised(subject)
    dataset = subject.desk.dataset
    truth = [dataset.classes.index(Path(name).parent.name) for name in dataset.names]
    assert given == [(list(range(36)), truth, {"batch_size": 36, "seed": 4, "name": "supervised"})]
    assert sorted(learnt[0][1][1].tolist()) == [0] * 12 + [1] * 12 + [2] * 12
    assert outcome.settings["batch_size"] == 36
    assert "36 labels, all that are known of 36 images; 30 test images" in outcome.protocol


def moves(views, desk, flip=False):
    """Whether a view is an image moved so: moves × images × views, the 25 moves by rows and columns."""
    mean, std = desk.statistics
    pixels = (views * std[:, None, None] + mean[:, None, None]) * 255
    assert torch.allclose(pixels, pixels.round(), atol=1e-3), "no pixel is made of two"
    wide = F.pad(desk.dataset.images.float(), (2, 2, 2, 2), mode="reflect")
    every = torch.stack([wide[:, :, i : i + 16, j : j + 16] for i in range(5) for j in range(5)])
    every = every.flip(4) if flip else every
    return (every[:, :, None] - pixels.round()).abs().amax((3, 4, 5)) == 0


@pytest.fixture
def soft(monkeypatch):
    """Views before they are hardened, and not cropped."""
    monkeypatch.setattr(hard, "_CROP", 0.0)
    monkeypatch.setattr(module, "hardening", lambda desk, *_: lambda step, crops: desk.normalised(crops))


@pytest.mark.usefixtures("soft")
@pytest.mark.parametrize(("labels", "count"), [("given", 9), ("all", 12)])
def test_small_images_are_shifted(small, subject_of, learnt, labels, count):
    subject = subject_of(small, labels=labels)
    outcome = supervised(subject)
    (_, (views, labels_B), _), desk = learnt[0], subject.desk
    assert "hard views: shifts by up to 2 px, the colours of" in outcome.protocol, "no flips, as the run"
    moved = moves(views, desk)
    assert moved.any((0, 1)).all(), "each is an image that was moved, and not flipped"
    seen = moved.any(0).any(1)
    assert int(seen.sum()) == count, "all labels are seen"
    assert seen[desk.dataset.labelled_L].all()
    assert not moved[12].any(0).all(), "and not all of them in their place"
    truth = torch.arange(12) % 3
    assert torch.equal(labels_B, truth[moved.any(0).int().argmax(0)])


@pytest.mark.usefixtures("soft")
def test_small_images_are_flipped_as_in_the_run(small, subject_of, learnt):
    subject = with_views(subject_of(small), flip=1.0)
    assert "hard views: shifts by up to 2 px, flips, the colours of" in supervised(subject).protocol
    assert moves(learnt[0][1][0], subject.desk, flip=True).any((0, 1)).all()


def test_small_images_are_seen_in_hard_views(small, subject_of, learnt, monkeypatch):
    made = []

    def hardening(*how):
        made.append(how)
        return lambda step, crops: torch.full_like(crops, step + 5, dtype=torch.float)

    monkeypatch.setattr(module, "hardening", hardening)
    subject = subject_of(small, seed=4)
    supervised(subject)
    assert made == [(subject.desk, hard_view(subject.desk), 4, "supervised/colours")]
    assert (learnt[0][1][0] == 5).all(), "and nothing is done to them then"


def test_a_training_that_was_stopped_knows_its_hard_views(small, trained, subject_of, monkeypatch, learnt):
    known, real = [], module.bookmark_of
    monkeypatch.setattr(
        module, "bookmark_of", lambda *a, facts, **how: known.append(facts) or real(*a, facts=facts, **how)
    )
    outcome = supervised(subject_of(small))
    assert known[0]["views"] in outcome.protocol
    supervised(subject_of(trained))
    assert "views" not in known[1], "crops are as they always were"


def test_images_of_the_papers_recipe_are_cropped_whatever_their_size(small, subject_of, learnt):
    outcome = supervised(with_views(subject_of(small), recipe="paper"))
    assert "crops of 8% to 100%;" in outcome.protocol


@pytest.mark.parametrize(("fit", "words"), [(15, " of middle squares"), (14, "")])
def test_files_are_cut_from_squares_where_these_fit(trained, subject_of, learnt, monkeypatch, fit, words):
    subject = subject_of(trained)
    config, side = subject.desk.config, round(8 * 8 / 7)
    files = load_for(replace(config, data=replace(config.data, feed="streaming")), CPU)
    monkeypatch.setattr(desk_module, "memory_for_pixels", lambda device: 3 * side**2 * fit)
    subject = replace(subject, desk=replace(subject.desk, dataset=files))
    assert f"crops of 20% to 100%{words} and flips" in supervised(subject).protocol


@pytest.mark.parametrize("error", [None, RuntimeError("memory")])
def test_the_feed_is_closed_whatever_happens(small, subject_of, monkeypatch, error):
    closed, real = [], module.examples_of

    def spy(feed, normalised, regret, harden):
        examples, close = real(feed, normalised, regret, harden=harden)
        feed.unreadable.add("cat.png: no image")
        return examples, lambda: closed.append(close())

    def train(encoder, examples, **_):
        if error:
            raise error
        return torch.nn.Sequential(encoder, torch.nn.LazyLinear(3)).eval()

    monkeypatch.setattr(module, "examples_of", spy)
    monkeypatch.setattr(module, "train_by_sgd", train)
    subject = subject_of(small)
    if error:
        with pytest.raises(RuntimeError, match="memory"):
            supervised(subject)
    else:
        supervised(subject)
    assert closed == [None]
    assert subject.desk.unreadable == {"cat.png: no image"}


def test_steps_are_counted_and_recorded_where_the_device_can(
    small, subject_of, learnt, recorded, monkeypatch
):
    told = []

    class Told:
        def __init__(self, console, title, total):
            told.append((title, total))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def advance(self, done):
            told.append(done)

    monkeypatch.setattr(module, "StageProgress", Told)
    recorder = recorded()
    supervised(subject_of(small, seed=3))
    assert told == [("training on the labels alone, seed 3", 3000), 1, 2]
    assert recorder.runs == 2


def test_it_is_a_function_of_the_seed(small, subject_of, learnt):
    one, two = supervised(subject_of(small)), supervised(subject_of(small))
    assert one == two
    assert torch.equal(learnt[0][1][0], learnt[1][1][0])
    supervised(subject_of(small, seed=1))
    assert not torch.equal(learnt[0][1][0], learnt[2][1][0])
