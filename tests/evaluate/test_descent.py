import pytest
import torch
from tests.core.recorders import PlainRecorder
from torch import nn

from semppl.evaluate.descent import Means, decaying_sgd, descend_, exact, shuffled


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


@pytest.mark.parametrize("labels", [[], [0, 3], [0, -1]])
def test_labels_must_be_classes(labels):
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        shuffled(drawn, torch.tensor(labels, dtype=torch.long), classes=3, batch_size=2, seed=0, name="x")


def test_weights_decay_and_the_rest_does_not():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Linear(2, 2))
    weights, rest = decaying_sgd(model, lr=0.3, weight_decay=5e-4).param_groups
    assert [p.ndim for p in weights["params"]] == [4, 2]
    assert len(rest["params"]) == 4
    assert (weights["weight_decay"], rest["weight_decay"]) == (5e-4, 0.0)
    for group in (weights, rest):
        assert (group["lr"], group["momentum"], group["nesterov"]) == (0.3, 0.9, True)


def test_two_steps_by_hand():
    # logits (w, 0) for x = 1: the gradient of w is σ(w) − 1 for class 0
    model = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(model.weight)
    told = []
    descend_(
        model,
        lambda step: (torch.ones(1, 1), torch.zeros(1, dtype=torch.long)),
        torch.optim.SGD(model.parameters()),
        lambda step: [(1.0, 0.5)[step]],
        2,
        advance=told.append,
    )
    w = 0.5  # both logits move by half, to 0.5 and −0.5
    w += 0.5 * (1 - torch.sigmoid(torch.tensor(2 * w)).item())
    assert model.weight.flatten().tolist() == pytest.approx([w, -w])
    assert told == [1, 2]


def test_a_recorded_descent_is_the_same_with_the_rates_of_both_groups():
    def descended(means, guard=lambda function: function):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

        def examples(step):
            rng = torch.Generator().manual_seed(step)
            return torch.randn(6, 3, generator=rng), torch.randint(2, (6,), generator=rng)

        def rate(step):
            return [0.5 / (1 + step), 0.1 * step]

        optimizer = decaying_sgd(model, lr=9.0, weight_decay=0.01)
        descend_(model, guard(examples), optimizer, guard(rate), 7, means=means)
        return model.state_dict()

    recorder = PlainRecorder()
    found = descended(Means(recorder=recorder), recorder.guarded)
    assert (recorder.runs, recorder.recordings, recorder.replays) == (3, 1, 4)
    torch.testing.assert_close(found, descended(Means()))


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
