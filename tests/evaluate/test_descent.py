import pytest
import torch
from tests.core.recorders import PlainRecorder
from tests.evaluate.bookmarks import Memory, Stopped, flat
from torch import nn
from torch._subclasses import FakeTensorMode

from semppl.evaluate.descent import (
    Means,
    Strides,
    decaying_adamw,
    decaying_sgd,
    descend_,
    exact,
    shuffled,
)


class StrictRecorder(PlainRecorder):
    """Replays at the rates that the optimiser had when it was recorded: a graph knows no others, and of those
    in memory it reads what lies there. Says which weights had a gradient before.
    """

    def __init__(self, optimizer):
        super().__init__()
        self.groups, self.had_gradients = optimizer.param_groups, []

    def _gradients(self):
        return [weight.grad is not None for group in self.groups for weight in group["params"]]

    def record(self, work, generators):
        self.had_gradients += self._gradients()
        rates = [group["lr"] for group in self.groups]

        def at_those_rates():
            for group, rate in zip(self.groups, rates, strict=True):
                group["lr"] = rate
            return work()

        return super().record(at_those_rates, generators)


def drawn(index, rng):
    return index[:, None].float() + torch.rand(len(index), 1, generator=rng)


def test_an_epoch_shows_every_label_once_and_steps_are_repeatable():
    labels = torch.tensor([2, 0, 1, 0, 2, 1])
    examples = shuffled(drawn, labels, classes=3, batch_size=2, seed=0, name="x")
    seen = []
    for step in range(3):
        views, labels_B = examples(step)
        index = views.floor().long().squeeze(1)
        assert torch.equal(labels[index], labels_B)
        seen += index.tolist()
        assert torch.equal(examples(step)[0], views)
    assert sorted(seen) == list(range(6))
    other = shuffled(drawn, labels, classes=3, batch_size=2, seed=0, name="y")
    assert not torch.equal(other(0)[0], examples(0)[0])


def test_seed_name_and_step_each_decide_the_order_and_the_crops():
    def crops(index, rng):
        return torch.stack([index.double(), torch.rand(len(index), generator=rng, dtype=torch.float64)])

    def shown(seed, name, step):
        examples = shuffled(crops, torch.arange(12) % 3, classes=3, batch_size=12, seed=seed, name=name)
        return examples(step)[0].tolist()

    order, draws = shown(0, "x", 0)
    for others in ((1, "x", 0), (0, "y", 0), (0, "x", 1)):
        other_order, other_draws = shown(*others)
        assert other_order != order
        assert other_draws != draws


def test_labels_go_to_where_the_views_are():
    examples = shuffled(
        lambda index, rng: torch.empty(len(index), 1, device="meta"),
        torch.arange(3),
        classes=3,
        batch_size=2,
        seed=0,
        name="x",
    )
    assert examples(0)[1].device.type == "meta"


@pytest.mark.parametrize("labels", [[], [0, 3], [0, -1]])
def test_labels_must_be_classes(labels):
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        shuffled(drawn, torch.tensor(labels, dtype=torch.long), classes=3, batch_size=2, seed=0, name="x")


def test_sgd_has_nesterov_momentum_in_both_groups_and_weights_decay():
    weights, rest = decaying_sgd(nn.Linear(2, 2), lr=0.3, weight_decay=5e-4).param_groups
    assert (weights["weight_decay"], rest["weight_decay"]) == (5e-4, 0.0)
    for group in (weights, rest):
        assert (group["lr"], group["momentum"], group["nesterov"]) == (0.3, 0.9, True)


def test_the_first_step_of_adamw_by_hand():
    """Its moments are the gradient and its square, both corrected: each number goes by the rate against its
    sign, and weights shrink by rate × decay of themselves before."""
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[4.0, -2.0]]))
        model.bias.fill_(3.0)
    optimizer = decaying_adamw(model, lr=0.1, weight_decay=0.5)
    model(torch.tensor([[1.0, -5.0]])).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), torch.tensor([[0.95 * 4 - 0.1, 0.95 * -2 + 0.1]]))
    torch.testing.assert_close(model.bias.detach(), torch.tensor([2.9]))


def test_two_steps_by_hand():
    # logits (wx, −wx): the gradient of w is x (σ(2wx) − 1) for class 0, and x σ(2wx) for class 1
    model = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(model.weight)
    told = []
    descend_(
        model,
        lambda step: (torch.tensor([[1.0 + step]]), torch.tensor([step])),
        torch.optim.SGD(model.parameters()),
        lambda step: [(1.0, 0.25)[step]],
        2,
        advance=told.append,
    )
    w = 0.5  # both weights move by half, to 0.5 and −0.5
    w -= 0.25 * 2 * torch.sigmoid(torch.tensor(2 * w * 2)).item()
    assert model.weight.flatten().tolist() == pytest.approx([w, -w])
    assert told == [1, 2]


def test_on_a_gpu_rates_are_read_where_they_lie():
    with FakeTensorMode():
        models = [nn.Linear(2, 2, device=device) for device in ("cuda", "cpu")]
        sgd, adamw = (
            [make(model, lr=0.1, weight_decay=0.0).param_groups[0] for model in models]
            for make in (decaying_sgd, decaying_adamw)
        )
    assert [group["fused"] for group in sgd] == [True, None]
    assert [(group["fused"], group["capturable"]) for group in adamw] == [(True, True), (True, False)]


def recordable():
    """A model, its optimiser, and what it learns from at which rates."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    def examples(step):
        rng = torch.Generator().manual_seed(step)
        return torch.randn(6, 3, generator=rng), torch.randint(2, (6,), generator=rng)

    def rate(step):
        return [0.5 / (1 + step), 0.1 * step]

    return model, decaying_sgd(model, lr=9.0, weight_decay=0.01), examples, rate


def test_a_recorded_descent_is_the_same_with_the_rates_of_both_groups():
    plain, optimizer, examples, rate = recordable()
    descend_(plain, examples, optimizer, rate, 7)
    model, optimizer, examples, rate = recordable()
    recorder = StrictRecorder(optimizer)
    means, guard = Means(recorder=recorder), recorder.guarded
    descend_(model, guard(examples), optimizer, guard(rate), 7, means=means)
    assert (recorder.runs, recorder.recordings, recorder.replays) == (3, 1, 4)
    torch.testing.assert_close(model.state_dict(), plain.state_dict())


def test_gradients_are_forgotten_before_a_recording_which_has_its_own():
    model, optimizer, examples, rate = recordable()
    recorder = StrictRecorder(optimizer)
    descend_(model, examples, optimizer, rate, 3, means=Means(recorder=recorder))
    assert all(weight.grad is not None for weight in model.parameters())
    assert recorder.had_gradients == [], "nothing is recorded yet"
    descend_(model, examples, optimizer, rate, 4, means=Means(recorder=recorder))
    assert recorder.had_gradients == [False] * 6


def test_rates_in_memory_lie_beside_the_weights():
    optimizer = decaying_sgd(nn.Linear(2, 2, device="meta"), lr=0.1, weight_decay=0.0)
    Strides(lambda inputs: None, optimizer, PlainRecorder())([0.1, 0.2], [])
    assert [group["lr"].device.type for group in optimizer.param_groups] == ["meta", "meta"]


def test_there_is_a_rate_for_each_group():
    for recorder in (None, PlainRecorder()):
        stride = Strides(
            lambda inputs: None, decaying_sgd(nn.Linear(2, 2), lr=0.1, weight_decay=0.0), recorder
        )
        for rates in ([0.1], [0.1, 0.2, 0.3]):
            with pytest.raises(ValueError, match="zip"):
                stride(rates, [])


def test_precision_surrounds_the_forward_pass():
    model, seen = nn.Linear(1, 2), []
    model.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    for precision in (exact, lambda: torch.autocast("cpu", torch.bfloat16)):
        descend_(
            model,
            lambda step: (torch.ones(2, 1), torch.tensor([0, 1])),
            torch.optim.SGD(model.parameters()),
            lambda step: [0.1],
            1,
            means=Means(precision),
        )
    assert seen == [torch.float32, torch.bfloat16]
    assert model.weight.dtype == torch.float32


def test_the_loss_of_low_logits_is_not_low():
    torch.manual_seed(0)
    model, views, labels = nn.Linear(16, 10), torch.randn(64, 16), torch.arange(64) % 10
    means = Means(lambda: torch.autocast("cpu", torch.bfloat16))
    with means.precision():
        logits = model(views)
    loss = nn.functional.cross_entropy(logits.float(), labels)
    (slope,) = torch.autograd.grad(loss, model.weight)
    optimizer = torch.optim.SGD(model.parameters())
    descend_(model, lambda step: (views, labels), optimizer, lambda step: [0.0], 1, means=means)
    assert torch.equal(model.weight.grad, slope)


def kept(memory, recorder=None):
    """What is left of a descent of seven steps, done from where the memory says; all of it at its end."""
    model, optimizer, examples, rate = recordable()
    descend_(model, examples, optimizer, rate, 7, means=Means(recorder=recorder, bookmark=memory.bookmark()))
    return flat(memory.place.state)


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("stop", [1, 3, 5, 7])
def test_a_descent_that_was_stopped_goes_on_to_the_bit(stop, records):
    def recorder():
        return PlainRecorder() if records else None

    whole, first = kept(Memory(), recorder()), Memory(stop)
    with pytest.raises(Stopped):
        kept(first, recorder())
    second = Memory(place=first.place)
    assert same(kept(second, recorder()), whole)
    assert second.steps == list(range(stop + 1, 8)), "no step is done twice"


@pytest.mark.parametrize("lost", ["/model/0.weight", "/model/1.running_mean", "/optimizer/0/momentum_buffer"])
def test_it_would_not_without_weights_statistics_or_momentum(lost):
    first, start = Memory(3), recordable()[0].state_dict()
    with pytest.raises(Stopped):
        kept(first)
    part, *path = lost.split("/")[1:]
    content, name = first.place.state[part], path[-1]
    if part == "optimizer":
        content[0][name].zero_()
    else:
        content[name] = start[name]
    assert not same(kept(Memory(place=first.place)), kept(Memory()))


def test_a_bookmark_changes_nothing():
    model, optimizer, examples, rate = recordable()
    descend_(model, examples, optimizer, rate, 7)
    assert same({f"/model/{name}": value for name, value in model.state_dict().items()}, of_model(Memory()))


def of_model(memory):
    return {name: value for name, value in kept(memory).items() if name.startswith("/model")}
