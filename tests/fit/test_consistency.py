import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from semppl.evaluate.exam import final_exam, validation_exam
from semppl.fit import consistency
from semppl.fit.consistency import affordable, allowance, fewest_steps, longest_plan, taught
from semppl.fit.tuning import answers
from semppl.protocols.teaching import teach


class SlowClock:
    """Steps of a thousand seconds, beside which nothing else takes time."""

    steps, seconds = 1, 1000.0

    def __init__(self, device):
        self.device = device

    def tick(self, done):
        assert done == 1


@pytest.fixture
def _few_steps(monkeypatch):
    monkeypatch.setattr(consistency, "StepClock", SlowClock)
    monkeypatch.setattr(consistency, "_FEWEST", 2)
    monkeypatch.setattr(consistency, "_FEWEST_ALONE", 2)
    monkeypatch.setattr(consistency, "_LEAST_EPOCHS", 1)


def loud(desk):
    return replace(desk, console=Console(file=io.StringIO(), width=300))


def go(desk, online, allowed):
    exam, validation = final_exam(desk.dataset), validation_exam(desk.dataset)
    return taught(desk, online.encoder, exam, validation, 7.0, allowed)


# time


def test_what_is_left_is_for_it_but_for_the_baseline():
    assert allowance(100.0, 180.0) == 180.0
    assert allowance(100.0, 50.0) == 50.0
    assert allowance(100.0, 49.0) == allowance(100.0, -9.0) == 50.0, "late, or over"


def test_without_an_end_it_takes_half_as_long_as_pre_training():
    assert allowance(100.0, None) == 50.0


def test_reading_and_all_trainings_take_as_long_as_allowed():
    assert affordable(50.0, 10.0, 0.05) == 800  # (50 − 10) / 0.05
    assert affordable(50.0, 0.0, 0.05) == 1000
    assert affordable(5.0, 10.0, 0.05) == affordable(-10.0, 0.0, 0.05) == 0, "never less than none"


def test_as_many_epochs_as_fit_within_450_or_those_of_evaluate():
    # 100 images a step, 16 steps an epoch
    assert longest_plan(1600, 199, 200) is None
    assert (longest_plan(1600, 200, 200).epochs, longest_plan(1600, 200, 200).steps) == (12, 192)
    assert (longest_plan(1600, 100, 100).epochs, longest_plan(1600, 100, 100).steps) == (6, 96)
    assert longest_plan(1600, 320, 200).epochs == 20
    assert (longest_plan(1600, 10**6, 200).epochs, longest_plan(1600, 10**6, 200).steps) == (450, 7200)
    # evaluate gives so few images 1,000 steps of 32
    assert longest_plan(48, 10**6, 200).epochs == 667


def test_fewer_than_three_epochs_are_none():
    assert fewest_steps(1600, 200) == 200
    assert fewest_steps(1_000_000, 200) == 5860  # of 512 images, three times
    assert longest_plan(1_000_000, 5859, 200) is None
    assert longest_plan(1_000_000, 5860, 200).epochs == 3


def test_two_trainings_need_more_steps_each_than_one_alone(desk, online, monkeypatch):
    asked = []
    monkeypatch.setattr(consistency, "StepClock", SlowClock)
    monkeypatch.setattr(consistency, "longest_plan", lambda *given: asked.append(given))
    assert go(desk, online, 310_000.0) is None
    assert asked == [(21, 154, 200), (21, 309, 100)]  # reading takes a little


# left out


def test_without_time_it_is_left_out_and_says_so(desk, online):
    desk = loud(desk)
    assert go(desk, online, 0.0) is None
    words = "fine-tuned on all images: left out, too little time for 100 steps (0 fit)"
    assert words in desk.console.file.getvalue()


def test_where_every_image_has_a_label_it_is_left_out_and_says_so(make_desk, online):
    desk = loud(make_desk(labels_per_class=None, label_fraction=1.0))
    assert go(desk, online, 1e9) is None
    assert "fine-tuned on all images: left out, as every image has a label" in desk.console.file.getvalue()


def test_files_are_not_read_again_after_a_short_pre_training(make_desk, online, monkeypatch):
    desk = loud(make_desk(feed="streaming"))
    monkeypatch.setattr(consistency, "collect", None)
    assert go(desk, online, 1e9) is None
    assert "pre-training had 2 epochs of them, and it needs 4" in desk.console.file.getvalue()


# done


@pytest.mark.usefixtures("_few_steps")
def test_it_trains_for_the_time_there_is_and_validation_labels_join_nothing(desk, online, monkeypatch):
    seen = []

    def spy(desk, encoder, fit, lot, plan, **how):
        seen.append((plan.steps, len(lot.given.labels_N), lot.index_N.tolist(), how["title"], how["sure"]))
        return teach(desk, encoder, fit, lot, plan, **how)

    monkeypatch.setattr(consistency, "teach", spy)
    before = {name: value.clone() for name, value in online.state_dict().items()}
    course, row, model = go(desk, online, 10_200.0)
    # (10,200 − a little) / 2 / 1,000 are 5 steps of 32 images: 7 epochs of 21
    free = [i for i, label in enumerate(desk.given_M.tolist()) if label < 0]
    assert seen == [(1, 12, free, None, 0.95), (5, 12, free, "fine-tuning on all images", 0.95)]
    assert (course.plan.epochs, course.plan.steps) == (7, 5)
    assert (row.name, row.way, len(row.right_N)) == ("SemPPL", "fine-tuned on all images", 21)
    assert len(row.right_V) == 3
    assert row.seconds > 7, "pre-training included"
    exam = final_exam(desk.dataset)
    assert torch.equal(row.right_N, exam.mark(answers(desk, model, exam)))
    assert all(torch.equal(value, before[name]) for name, value in online.state_dict().items())
    course.run(desk, online.encoder, desk.given_M, "once more")
    assert seen[2] == (5, 15, free, "once more", 0.95), "all given labels, and the same images without one"


@pytest.mark.usefixtures("_few_steps")
def test_a_course_says_how_it_was_done(desk, online):
    course, _, _ = go(desk, online, 10_200.0)
    assert course.describe() == (
        "fine-tuned on all images: with consistency, 21 images without a label, P = 0.95 (less likely "
        "answers by their probabilities), 7 epochs of them in 5 steps from the linear way on"
    )
    told = course.as_json()
    assert (told["unlabelled_images"], told["least_probability"], told["steps"]) == (21, 0.95, 5)
    assert not told["trained_once"]


@pytest.mark.usefixtures("_few_steps")
def test_where_time_is_for_one_training_the_network_that_was_measured_is_kept(desk, online):
    desk = loud(desk)
    course, _, model = go(desk, online, 3_200.0)  # one of three steps, where two would have one each
    assert (course.plan.steps, course.kept) == (3, model)
    assert course.once_more(desk, online.encoder) is model
    assert course.as_json()["trained_once"]
    assert "no time for a second training, which would have the validation labels" in (
        desk.console.file.getvalue()
    )


@pytest.mark.usefixtures("_few_steps")
def test_where_time_is_for_two_trainings_the_second_has_all_labels(desk, online, monkeypatch):
    seen = []
    course, _, _ = go(desk, online, 10_200.0)
    monkeypatch.setattr(type(course), "run", lambda self, *given: seen.append(given) or "anew")
    assert (course.once_more(desk, online.encoder), course.kept) == ("anew", None)
    ((_, encoder, labels_M, _),) = seen
    assert encoder is online.encoder
    assert torch.equal(labels_M, desk.given_M)


@pytest.mark.usefixtures("_few_steps")
def test_without_validation_labels_it_has_a_row_all_the_same(make_desk, online):
    _, row, _ = go(make_desk(validation=0.0), online, 10_200.0)
    assert row.validation is None
