from copy import deepcopy

import pytest
import torch
from tests.core.recorders import PlainRecorder
from tests.evaluate.bookmarks import Memory, Stopped, flat
from torch import nn
from torch.nn import functional as F

from semppl.core.hidden import HiddenLabels
from semppl.evaluate.consistency import Tally
from semppl.evaluate.descent import Means, decaying_adamw
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.teaching import Lesson, Pair, Teaching, average_, create_student, learn_
from semppl.method.target import Target

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


def adamw(student):
    return decaying_adamw(student, lr=9.0, weight_decay=0.01)


def rate(step):
    return 0.1 / (1 + step)


def learnt(student, steps=4, watch=None, advance=None, descend=sgd, **changes):
    teaching = Teaching(**{"prior_Y": UNIFORM, "least": 0.5, "decay": 0.9, **changes})
    return learn_(
        student, labelled, pairs, descend(student), rate, steps, teaching, watch=watch, advance=advance
    )


def assert_same(one, other):
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


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


@pytest.mark.parametrize("doubtful", [False, True])
def test_steps_by_brute_force(doubtful):
    """Everything once more without any function of the module: weights, teacher and answers are the same."""
    student, told, done = network(), [], []
    prior = torch.tensor([0.5, 0.3, 0.2])
    teacher = learnt(
        student,
        prior_Y=prior,
        decay=0.75,
        doubtful=doubtful,
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
        if doubtful:
            loss = loss - sum(aligned[i] @ logits[6 + i] for i in range(8) if not sure[i]) / 8
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
        Teaching(prior_Y=torch.full((2,), 0.5), least=least, decay=0.5),
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
        Teaching(prior_Y=UNIFORM, least=0.0, decay=0.0),
    )
    assert easy.grad is None


def test_precision_surrounds_both_forward_passes():
    seen, student = [], network()
    student[3].register_forward_hook(lambda *args: seen.append(args[2].dtype))
    learnt(student, steps=1, means=Means(lambda: torch.autocast("cpu", torch.bfloat16)))
    assert seen == [torch.bfloat16] * 2, "the teacher's copy of the hook, and the student's"


def test_a_recorded_training_is_the_same_and_reads_rates_and_views_anew():
    def told():
        seen = []
        return seen, lambda step, index, answers: seen.append([each.clone() for each in answers])

    (plain, heard), (replayed, overheard) = told(), told()
    student, recorded, recorder = network(), network(), PlainRecorder()
    teacher = learnt(student, steps=7, watch=heard)
    rate_calls = recorder.guarded(rate)
    teaching = Teaching(prior_Y=UNIFORM, least=0.5, decay=0.9, means=Means(recorder=recorder))
    views, others = recorder.guarded(labelled), recorder.guarded(pairs)
    other = learn_(recorded, views, others, sgd(recorded), rate_calls, 7, teaching, watch=overheard)
    assert (recorder.runs, recorder.recordings, recorder.replays) == (3, 1, 4)
    torch.testing.assert_close(recorded.state_dict(), student.state_dict())
    torch.testing.assert_close(other.state_dict(), teacher.state_dict())
    for ours, theirs in zip(plain, replayed, strict=True):
        assert all(map(torch.equal, ours, theirs))


def test_what_a_recording_reads_stays_where_it_is():
    """A graph would not see a new tensor of an old name."""
    student = network()
    lesson = Lesson(student, sgd(student), Teaching(prior_Y=UNIFORM, least=0.5, decay=0.9))
    tensors = [lesson._mean_Y, *student.state_dict().values(), *lesson.teacher.module.state_dict().values()]
    before, first = [each.data_ptr() for each in tensors], lesson._mean_Y.clone()
    for step in range(3):
        lesson.step_(labelled(step), pairs(step), 0.1)
    again = [lesson._mean_Y, *student.state_dict().values(), *lesson.teacher.module.state_dict().values()]
    assert [each.data_ptr() for each in again] == before
    assert not torch.equal(lesson._mean_Y, first)


# a training that is stopped


def kept(memory, recorder=None, descend=sgd):
    """What is left of seven steps, done from where the memory says; all of it at its end, and the teacher."""
    student, tally = network(), Tally(2, HiddenLabels(torch.arange(8) % 3), torch.device("cpu"))
    means = Means(recorder=recorder, bookmark=memory.bookmark(tally=tally.table_E4))
    teacher = learnt(
        student,
        steps=7,
        descend=descend,
        doubtful=descend is adamw,
        means=means,
        prior_Y=torch.tensor([0.5, 0.3, 0.2]),
        watch=lambda step, index, answers: tally.count_(step // 4, index, answers),
    )
    return flat({**memory.place.state, "marked": teacher.state_dict()})


def differing(one, other):
    assert one.keys() == other.keys()
    return {name.split("/")[1] for name, value in one.items() if not torch.equal(value, other[name])}


@pytest.mark.parametrize(("descend", "records"), [(sgd, False), (sgd, True), (adamw, False), (adamw, True)])
@pytest.mark.parametrize("stop", [1, 3, 5, 7])
def test_a_training_that_was_stopped_goes_on_to_the_bit(stop, descend, records):
    def recorder():
        return PlainRecorder() if records else None

    whole, first = kept(Memory(), recorder(), descend), Memory(stop)
    assert {name.split("/")[1] for name in whole} == {
        *("student", "optimizer", "teacher", "mean", "tally", "marked"),
    }
    with pytest.raises(Stopped):
        kept(first, recorder(), descend)
    second = Memory(place=first.place)
    assert differing(kept(second, recorder(), descend), whole) == set()
    assert second.steps == list(range(stop + 1, 8)), "no step is done twice"


@pytest.mark.parametrize("lost", ["student", "optimizer", "teacher", "mean", "tally"])
def test_it_would_not_without_any_part(lost):
    early, late = Memory(1), Memory(4)
    for memory in (early, late):
        with pytest.raises(Stopped):
            kept(memory)
    late.place.state[lost] = early.place.state[lost]
    assert lost in differing(kept(Memory(place=late.place)), kept(Memory()))


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
