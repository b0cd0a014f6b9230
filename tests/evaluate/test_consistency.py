import math

import pytest
import torch

from semppl.core.hidden import HiddenLabels
from semppl.evaluate.consistency import (
    Answers,
    Tally,
    align,
    class_prior,
    doubtful_loss,
    follow,
    make_plan,
    masked_loss,
    sure_answers,
)

CPU = torch.device("cpu")
UNIFORM = torch.full((3,), 1 / 3)


def probabilities(count, classes=3, scale=2.0):
    return (scale * torch.randn(count, classes)).softmax(1)


# answers


def test_alignment_by_hand():
    answers = torch.tensor([[0.5, 0.5], [0.9, 0.1]])
    aligned = align(answers, torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
    # 0.5 · 2/3 against 0.5 · 2, and 0.9 · 2/3 against 0.1 · 2
    torch.testing.assert_close(aligned, torch.tensor([[0.25, 0.75], [0.75, 0.25]]))


def test_aligned_answers_sum_to_one_and_before_that_have_the_prior_as_their_mean():
    answers, prior = probabilities(200) * torch.tensor([3.0, 1.0, 0.2]), torch.tensor([0.2, 0.5, 0.3])
    answers = answers / answers.sum(1, keepdim=True)
    aligned = align(answers, answers.mean(0), prior)
    torch.testing.assert_close(aligned.sum(1), torch.ones(200))
    weighed = torch.tensor(
        [[p * float(prior[y] / answers[:, y].mean()) for y, p in enumerate(row)] for row in answers.tolist()]
    )
    torch.testing.assert_close(weighed.mean(0), prior)
    torch.testing.assert_close(aligned, weighed / weighed.sum(1, keepdim=True))
    far, near = ((mean - prior).abs().sum() for mean in (answers.mean(0), aligned.mean(0)))
    assert near < far / 2


def test_answers_that_are_all_alike_become_the_prior():
    answers, prior = torch.tensor([[0.7, 0.2, 0.1]]).expand(5, 3), torch.tensor([0.2, 0.5, 0.3])
    torch.testing.assert_close(align(answers, answers[0], prior), prior.expand(5, 3))


def test_a_mean_that_is_the_prior_changes_nothing():
    answers, prior = probabilities(9), torch.tensor([0.2, 0.5, 0.3])
    torch.testing.assert_close(align(answers, prior, prior), answers)


def test_a_class_without_a_label_is_never_the_answer():
    aligned = align(
        torch.tensor([[0.98, 0.02], [1.0, 0.0]]), torch.tensor([0.9, 0.1]), torch.tensor([0.0, 1.0])
    )
    assert aligned.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert not sure_answers(aligned, 0.5).sure_U[1]


def test_a_class_that_was_never_answered_stays_finite():
    aligned = align(torch.tensor([[1.0, 0.0]]), torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    assert aligned.tolist() == [[1.0, 0.0]]


def test_the_running_mean_by_hand():
    mean = follow(torch.tensor([0.5, 0.5]), torch.tensor([[1.0, 0.0], [0.8, 0.2]]))
    torch.testing.assert_close(mean, torch.tensor([0.504, 0.496]))


def test_the_prior_is_the_share_of_each_class_and_uniform_for_balanced_labels():
    assert class_prior(torch.tensor([2, 0, 2, 2]), 4).tolist() == [0.25, 0.0, 0.75, 0.0]
    torch.testing.assert_close(class_prior(torch.tensor([1, 0, 2, 2, 1, 0]), 3), UNIFORM)


def test_the_bound_itself_is_sure_and_less_is_not():
    answers = sure_answers(torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]]), 0.75)
    assert answers.label_U.tolist() == [1, 0, 0]
    assert answers.sure_U.tolist() == [True, False, True]


def test_nothing_is_sure_at_one_not_even_what_float32_rounds_to_it():
    certain = torch.tensor([[30.0, 0.0]]).softmax(1)
    assert certain[0, 0] == 1
    assert sure_answers(certain, 0.999999).sure_U.all()
    assert not sure_answers(certain, 1).sure_U.any()


def test_the_loss_is_a_mean_over_all_images_of_what_is_sure():
    logits = torch.randn(4, 3, requires_grad=True)
    answers = Answers(torch.tensor([0, 2, 1, 1]), torch.tensor([True, False, True, False]))
    loss = masked_loss(logits, answers)
    expected = sum(-logits[i].log_softmax(0)[answers.label_U[i]].item() for i in (0, 2)) / 4
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert logits.grad[[1, 3]].abs().sum() == 0
    assert (logits.grad[[0, 2]].abs().sum(1) > 0).all()


def test_doubtful_answers_teach_each_class_by_its_probability():
    logits, answers = torch.randn(4, 3, requires_grad=True), probabilities(4)
    sure = torch.tensor([True, False, False, True])
    loss = doubtful_loss(logits, answers, sure)
    expected = -sum(float(answers[i] @ logits[i].detach().log_softmax(0)) for i in (1, 2)) / 4
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert logits.grad[[0, 3]].abs().sum() == 0
    torch.testing.assert_close(logits.grad[1], (logits[1].softmax(0) - answers[1]).detach() / 4)


def test_a_doubtful_answer_that_is_certain_teaches_as_a_sure_one():
    logits, label = torch.randn(5, 3), torch.tensor([2, 0, 1, 1, 0])
    nobody, everybody = torch.zeros(5, dtype=torch.bool), torch.ones(5, dtype=torch.bool)
    certain = torch.eye(3)[label]
    torch.testing.assert_close(
        doubtful_loss(logits, certain, nobody), masked_loss(logits, Answers(label, everybody))
    )


def test_an_answer_without_any_class_teaches_nothing():
    assert doubtful_loss(torch.randn(2, 3), torch.zeros(2, 3), torch.zeros(2, dtype=torch.bool)) == 0


# how long


def test_many_images_are_trained_as_in_the_search():
    plan = make_plan(45_000)
    assert (plan.epochs, plan.unlabelled, plan.labelled) == (60, 512, 128)
    assert plan.steps == math.ceil(60 * 45_000 / 512)
    assert (plan.rate, plan.decay, plan.optimizer, plan.doubtful) == (0.03, 0.999, "sgd", False)
    assert make_plan(8192).unlabelled == 512


def test_a_small_set_has_smaller_batches_and_a_teacher_that_forgets_sooner():
    plan = make_plan(1387)
    assert (plan.unlabelled, plan.labelled) == (86, 21)
    assert plan.epochs == 63, "1,000 steps are a little more than 60 epochs"
    assert plan.steps == math.ceil(63 * 1387 / 86)
    assert plan.decay == pytest.approx(1 - 5 / plan.steps)


def test_a_handful_of_images_comes_by_often_enough():
    plan = make_plan(21)
    assert plan.unlabelled == 32
    assert plan.epochs == math.ceil(1000 * 32 / 21)
    assert plan.steps >= 1000
    assert make_plan(21, epochs=2).steps == 2
    assert make_plan(21, epochs=2).decay == 0.0, "no memory at all in so short a training"


def test_fewer_than_1000_steps_are_a_short_training():
    short, long = make_plan(8192, 62), make_plan(8192, 63)  # 16 steps an epoch
    assert (short.steps, short.rate, short.optimizer, short.doubtful) == (992, 0.001, "adamw", True)
    assert (long.steps, long.rate, long.optimizer, long.doubtful) == (1008, 0.03, "sgd", False)
    silent = make_plan(8192, 62, answers=False)
    assert (silent.optimizer, silent.doubtful) == ("adamw", False), "where no answer is learnt, none is"


def test_nobody_has_a_short_training_without_asking():
    assert not any(make_plan(count).doubtful for count in (1, 21, 1387, 8192, 45_000, 1_300_000))


def test_the_last_step_belongs_to_the_last_epoch():
    for count in (1, 21, 1387, 45_000):
        plan = make_plan(count, epochs=7)
        assert (plan.steps - 1) * plan.unlabelled // count < 7


def test_the_rate_rises_quickly_and_falls_to_0():
    plan = make_plan(45_000)
    rates = [plan.learning_rate(step) for step in range(plan.steps + 1)]
    top = rates.index(max(rates))
    assert max(rates) == 0.03
    assert top == round(plan.steps / 60)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == 0


# counting


def answers(labels, sure):
    return Answers(torch.tensor(labels), torch.tensor(sure))


def test_sure_answers_are_counted_by_epoch_and_the_right_ones_where_truth_is_known():
    tally = Tally(3, HiddenLabels(torch.tensor([0, 1, 2, -1])), CPU)
    index = torch.arange(4)
    # of three sure ones the truth of two is known, and one of these is right
    tally.count_(0, index, answers([0, 2, 2, 1], [True, True, False, True]))
    tally.count_(1, index, answers([0, 1, 2, 0], [True, True, True, True]))
    tally.count_(1, index, answers([1, 1, 1, 1], [True, False, False, False]))
    tally.count_(2, index, answers([0, 1, 2, 0], [False] * 4))
    assert tally.as_json() == [
        {"epoch": 1, "coverage": 0.75, "right": 0.5},
        {"epoch": 2, "coverage": 5 / 8, "right": 0.75},
        {"epoch": 3, "coverage": 0.0},
    ]


def test_without_withheld_truth_only_coverage_is_known():
    tally = Tally(2, None, CPU)
    tally.count_(0, torch.arange(2), answers([0, 1], [True, False]))
    assert tally.as_json() == [{"epoch": 1, "coverage": 0.5}, {"epoch": 2, "coverage": 0.0}]
