import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from semppl.core.hidden import HiddenLabels
from semppl.evaluate.consistency import (
    Answers,
    Pair,
    Tally,
    align,
    average_,
    class_prior,
    create_sgd,
    create_student,
    follow,
    learn_,
    make_plan,
    masked_loss,
    sure_answers,
)
from semppl.evaluate.linear import LinearFit
from semppl.method.target import Target

CPU = torch.device("cpu")
UNIFORM = torch.full((3,), 1 / 3)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def labelled(step):
    rng = torch.Generator().manual_seed(step)
    return torch.randn(6, 4, generator=rng), torch.randint(3, (6,), generator=rng)


def pairs(step):
    rng = torch.Generator().manual_seed(100 + step)
    easy = 3 * torch.randn(8, 4, generator=rng)
    return Pair(easy, easy + torch.randn(8, 4, generator=rng), torch.arange(8))


def sgd(student):
    return torch.optim.SGD(student.parameters(), lr=9.0, momentum=0.9)


def rate(step):
    return 0.1 / (1 + step)


def learnt(student, steps=4, **changes):
    how = {"prior_Y": UNIFORM, "least": 0.5, "decay": 0.9, **changes}
    return learn_(student, labelled, pairs, sgd(student), rate, steps, **how)


def assert_same(one, other):
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


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


# the teacher


def test_the_average_of_weights_and_statistics_by_hand():
    student, teacher = nn.BatchNorm1d(1), Target(nn.BatchNorm1d(1))
    with torch.no_grad():
        student.weight.fill_(3.0)
        student.running_mean.fill_(8.0)
        student.num_batches_tracked.fill_(5)
    average_(teacher, student, 0.75)
    assert teacher.module.weight.item() == 1.5
    assert teacher.module.running_mean.item() == 2.0
    assert teacher.module.num_batches_tracked.item() == 5


def test_a_network_without_statistics_has_an_average_too():
    teacher = Target(nn.Linear(1, 1))
    student = deepcopy(teacher.module)
    average_(teacher, student, 0.5)
    assert_same(teacher.module, student)


def test_a_decay_of_0_is_the_student_and_of_1_the_start():
    student = network()
    assert_same(learnt(student, decay=0.0), student)
    start = network()
    kept = learnt(network(), decay=1.0)
    for name, value in kept.named_parameters():
        assert torch.equal(value, start.state_dict()[name])
    assert torch.equal(kept[1].running_mean, start[1].running_mean)


def test_the_teacher_comes_back_in_evaluation_mode_and_without_gradients():
    student = network()
    teacher = learnt(student)
    assert not teacher.training
    assert student.training
    assert all(not p.requires_grad and p.grad is None for p in teacher.parameters())


# training


def supervised(student, steps=4):
    """The labels alone, seen together with the hard views by batch norm."""
    optimizer = sgd(student.train())
    for step in range(steps):
        views, labels = labelled(step)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        logits = student(torch.cat([views, pairs(step).hard_U3ss]))[: len(labels)]
        optimizer.zero_grad()
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
    return student


def test_a_least_probability_of_1_leaves_supervised_training_bit_for_bit():
    student = network()
    learnt(student, least=1.0)
    assert_same(student, supervised(network()))
    other = network()
    learnt(other, least=0.0)
    assert not torch.equal(other[0].weight, student[0].weight)


def test_hard_views_touch_the_labels_through_batch_norm_alone():
    def plain():
        torch.manual_seed(2)
        return nn.Linear(4, 3)

    student, alone = plain(), plain()
    learnt(student, least=1.0)
    optimizer = sgd(alone)
    for step in range(4):
        views, labels = labelled(step)
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.zero_grad()
        F.cross_entropy(alone(views), labels).backward()
        optimizer.step()
    torch.testing.assert_close(student.state_dict(), alone.state_dict())


def test_steps_by_brute_force():
    """Everything once more without any function of the module: weights, teacher and answers are the same."""
    student, told, done = network(), [], []
    prior = torch.tensor([0.5, 0.3, 0.2])
    teacher = learnt(
        student,
        prior_Y=prior,
        decay=0.75,
        watch=lambda step, index, answers: told.append((step, index, *answers)),
        advance=done.append,
    )
    mine, theirs, mean, velocity = network().train(), network().eval(), prior, {}
    for step in range(4):
        (views, labels), (easy, hard, _) = labelled(step), pairs(step)
        with torch.no_grad():
            p = theirs(easy).softmax(1)
        mean = 0.99 * mean + 0.01 * p.mean(0)
        aligned = p * prior / mean
        aligned = aligned / aligned.sum(1)[:, None]
        answer, sure = aligned.argmax(1), aligned.max(1).values >= 0.5
        assert told[step][0] == step
        assert torch.equal(told[step][2], answer)
        assert torch.equal(told[step][3], sure)
        logits = mine(torch.cat([views, hard])).log_softmax(1)
        loss = -sum(logits[i, labels[i]] for i in range(6)) / 6
        loss = loss - sum(logits[6 + i, answer[i]] for i in range(8) if sure[i]) / 8
        gradients = torch.autograd.grad(loss, list(mine.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(mine.parameters(), gradients, strict=True):
                velocity[parameter] = 0.9 * velocity.get(parameter, 0.0) + gradient
                parameter.sub_(rate(step) * velocity[parameter])
            for old, new in zip(theirs.state_dict().values(), mine.state_dict().values(), strict=True):
                old.copy_(0.75 * old + 0.25 * new if old.is_floating_point() else new)
    torch.testing.assert_close(student.state_dict(), mine.state_dict())
    torch.testing.assert_close(teacher.state_dict(), theirs.state_dict())
    sure = torch.cat([row[3] for row in told])
    assert sure.any()
    assert not sure.all()
    assert done == [1, 2, 3, 4]


@pytest.mark.parametrize("least", [0.8, 1.0])
def test_what_only_hard_views_show_is_learnt_from_sure_answers(least):
    """Labels and easy views tell the classes by x alone, hard views by y alone: answers link the two."""
    side, x, y = torch.tensor([1.0, -1.0]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    student = nn.Linear(2, 2)
    nn.init.zeros_(student.weight)
    nn.init.zeros_(student.bias)
    learn_(
        student,
        lambda step: (side[:, None] * x, torch.tensor([0, 1])),
        lambda step: Pair(side[:, None] * x, side[:, None] * y, torch.arange(2)),
        torch.optim.SGD(student.parameters()),
        lambda step: 1.0,
        50,
        prior_Y=torch.full((2,), 0.5),
        least=least,
        decay=0.5,
    )
    margin_x, margin_y = (student.weight[0] - student.weight[1]).tolist()
    assert margin_x > 2
    assert margin_y > 2 if least < 1 else margin_y == 0


def test_no_gradient_flows_through_answers():
    """The easy view is asked without gradient: what the teacher makes of it has none."""
    easy = pairs(0).easy_U3ss.requires_grad_()
    student = network()
    learn_(
        student,
        labelled,
        lambda step: pairs(step)._replace(easy_U3ss=easy),
        sgd(student),
        rate,
        1,
        prior_Y=UNIFORM,
        least=0.0,
        decay=0.0,
    )
    assert easy.grad is None


def test_precision_surrounds_both_forward_passes():
    seen, student = [], network()
    student[3].register_forward_hook(lambda *args: seen.append(args[2].dtype))
    learnt(student, steps=1, precision=lambda: torch.autocast("cpu", torch.bfloat16))
    assert seen == [torch.bfloat16] * 2, "the teacher's copy of the hook, and the student's"


# the start


def test_the_student_starts_as_the_fit_and_leaves_the_encoder_alone():
    encoder = nn.Linear(4, 2).requires_grad_(False)
    fit = LinearFit(torch.randn(3, 2, dtype=torch.double), torch.randn(3, dtype=torch.double))
    student = create_student(encoder, fit)
    x = torch.randn(7, 4)
    torch.testing.assert_close(student(x).double(), fit.logits(encoder(x)), atol=1e-5, rtol=1e-5)
    assert all(p.requires_grad for p in student.parameters())
    assert student.encoder is not encoder
    assert not encoder.weight.requires_grad


def test_only_matrices_decay():
    student = network()
    matrices, others = create_sgd(student).param_groups
    assert [p.ndim for p in matrices["params"]] == [2, 2]
    assert matrices["weight_decay"] == 5e-4
    assert len(others["params"]) == 4
    assert others["weight_decay"] == 0
    assert all(group["momentum"] == 0.9 and group["nesterov"] for group in (matrices, others))


# how long


def test_many_images_are_trained_as_in_the_search():
    plan = make_plan(45_000)
    assert (plan.epochs, plan.unlabelled, plan.labelled) == (60, 512, 128)
    assert plan.steps == math.ceil(60 * 45_000 / 512)
    assert (plan.rate, plan.decay) == (0.03, 0.999)
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
