import multiprocessing
import weakref
from functools import partial

import pytest
import torch
from tests.doctor.conftest import CPU

from semppl.config import DataConfig, MethodConfig
from semppl.core.errors import UserError
from semppl.doctor.probe import Steps, loader_alone, through, time_loss, time_steps, tried
from semppl.train.build import build_training


@pytest.fixture
def training(make_trial, npz):
    subject = make_trial(npz).subject
    return build_training(subject.to_try(8), subject.dataset, CPU)


def files(make_trial, class_folders):
    data = DataConfig(labels_per_class=2, feed="streaming", workers=1)
    return make_trial(class_folders, data=data, batch_size=8).subject


def test_steps_are_counted_after_the_first(training):
    heard = []
    seen = time_steps(training, steps=3, seconds=60.0, advance=heard.append)
    assert (seen.images, len(seen.seconds)) == (8, 3)
    assert training.state.step == 4
    assert all(each > 0 for each in seen.seconds)
    assert 0 < seen.waiting < 1
    assert seen.peak > 10**7
    assert heard == sorted(heard)
    assert heard[-1] == 1.0


def test_a_device_that_takes_all_the_time_for_the_first_step_is_measured_by_it(training):
    seen = time_steps(training, steps=30, seconds=0.0)
    assert len(seen.seconds) == 1
    assert training.state.step == 1


def test_the_median_is_what_counts():
    seen = Steps(10, (1.0, 9.0, 2.0), 0.0, 0)
    assert seen.median == 2.0
    assert seen.images_per_second == 5.0


FEW, MANY = Steps(2, (3.0,), 0.0, 0), Steps(4, (5.0,), 0.0, 0)


def test_a_line_through_two_points():
    # 1 second and 1 for each image
    assert through(FEW, MANY, 10) == pytest.approx(11.0)
    assert through(FEW, MANY, 4) == pytest.approx(5.0)


@pytest.mark.parametrize("few", [Steps(2, (6.0,), 0.0, 0), Steps(2, (1.0,), 0.0, 0)])
def test_points_that_contradict_each_other_leave_the_larger_one(few):
    # falling, or below nothing at no images
    assert through(few, MANY, 8) == pytest.approx(10.0)


def test_the_device_alone_sees_one_batch_and_may_run_unrecorded(training, monkeypatch):
    asked = []
    feed = training.feed
    monkeypatch.setattr(type(feed), "__call__", lambda self, step: asked.append(step) or self.make(step))
    time_steps(training, steps=2, seconds=60.0, fed=False, recorded=False)
    assert asked == [0]
    assert training.state.step == 3


def test_nothing_stays_of_what_was_tried(make_trial, npz):
    subject, seen = make_trial(npz).subject, []

    def work(training):
        seen.append(weakref.ref(training.state.online))
        return 7

    assert tried(subject.to_try(4), subject.dataset, CPU, work) == 7
    assert seen[0]() is None


def test_a_memory_that_is_too_small_is_none_and_other_errors_are_errors(make_trial, npz):
    subject = make_trial(npz).subject

    def fails(error, training):
        raise error

    look = partial(tried, subject.to_try(4), subject.dataset, CPU)
    assert look(partial(fails, torch.OutOfMemoryError("too large"))) is None
    with pytest.raises(UserError, match="wrong"):
        look(partial(fails, UserError("wrong")))


def test_workers_end_with_the_trial(make_trial, class_folders):
    subject = files(make_trial, class_folders)

    def work(training):
        seen = time_steps(training, steps=1, seconds=60.0)
        assert multiprocessing.active_children()
        rate = loader_alone(training, seconds=0.0)
        alone = time_steps(training, steps=1, seconds=60.0, fed=False)
        return seen, rate, alone

    seen, rate, alone = tried(subject.to_try(8), subject.dataset, CPU, work)
    assert seen.images == alone.images == 8
    assert rate > 0
    assert not multiprocessing.active_children()


def test_pixels_in_memory_have_no_loader(training):
    assert loader_alone(training, seconds=0.0) is None


@pytest.mark.parametrize(
    "method",
    [
        MethodConfig(positives=2, queue_capacity=20),
        MethodConfig(positives=2, queue_capacity=20, semantic_partner="store", small_partner="run_target"),
        MethodConfig(positives=2, queue_capacity=20, semantic_partner="lockstep"),
        MethodConfig(positives=0),
        MethodConfig(objective="simclr", positives=2, queue_capacity=20),
        MethodConfig(objective="byol", positives=2, queue_capacity=20),
    ],
    ids=["paper", "store", "lockstep", "no queue", "simclr", "byol"],
)
def test_the_loss_of_a_whole_batch_is_timed_for_every_method(make_trial, npz, method):
    subject = make_trial(npz, method=method).subject
    config = subject.to_try(4)
    training = build_training(config, subject.dataset, CPU)
    assert time_loss(training, config, 16, rounds=1) > 0
    assert training.state.step == 0
