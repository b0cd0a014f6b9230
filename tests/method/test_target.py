import pytest
import torch
from torch import nn

from semppl.method.target import Target


def linear(weight, bias=0.0):
    module = nn.Linear(1, 1)
    with torch.no_grad():
        module.weight.fill_(weight)
        module.bias.fill_(bias)
    return module


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def numbers(module):
    return [value.clone() for value in module.parameters()]


def assert_equal(values, others):
    assert all(torch.equal(one, other) for one, other in zip(values, others, strict=True))


def test_the_moving_average_by_hand():
    target, online = Target(linear(1.0, bias=-2.0)), linear(3.0, bias=2.0)
    target.update_(online, 0.75)
    assert (target.module.weight.item(), target.module.bias.item()) == (1.5, -1.0)
    target.update_(online, 0.5)
    assert (target.module.weight.item(), target.module.bias.item()) == (2.25, 0.5)
    assert (online.weight.item(), online.bias.item()) == (3.0, 2.0)


def test_the_distance_to_a_resting_online_network_shrinks_by_the_decay():
    target, online = Target(network(0)), network(1)
    start = numbers(target.module)
    for _ in range(5):
        target.update_(online, 0.9)
    for first, now, goal in zip(start, target.module.parameters(), online.parameters(), strict=True):
        torch.testing.assert_close(now - goal, 0.9**5 * (first - goal))


def test_a_decay_of_one_keeps_the_target_bit_for_bit():
    target = Target(network(0))
    before = numbers(target.module)
    target.update_(network(1), 1.0)
    assert_equal(target.module.parameters(), before)


def test_a_decay_of_zero_is_an_exact_copy_and_not_a_reference():
    target, online = Target(network(0)), network(1)
    target.update_(online, 0.0)
    assert_equal(target.module.parameters(), online.parameters())
    copied = numbers(target.module)
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.add_(1)
    assert_equal(target.module.parameters(), copied)


@pytest.mark.parametrize("weight", [float("inf"), float("nan"), 3e38, 1e-30])
def test_a_decay_of_zero_copies_over_whatever_the_target_was(weight):
    target = Target(linear(weight))
    target.update_(linear(-3e38, bias=0.1), 0.0)
    assert target.module.weight.item() == linear(-3e38).weight.item()
    assert target.module.bias.item() == linear(0.1).weight.item()


def test_a_new_target_equals_the_online_network_and_does_not_follow_it_unasked():
    online = network(0)
    target, before = Target(online), numbers(online)
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.add_(1)
    assert_equal(target.module.parameters(), before)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_batch_statistics_are_not_averaged(decay):
    online = network(0)
    target = Target(online)
    online(torch.randn(8, 3) + 5)
    target.update_(online, decay)
    assert torch.equal(target.module[1].running_mean, torch.zeros(4))
    assert torch.equal(target.module[1].running_var, torch.ones(4))
    assert int(target.module[1].num_batches_tracked) == 0


def test_the_target_normalises_by_the_batch_and_keeps_statistics_of_its_own():
    online = nn.Sequential(nn.BatchNorm1d(1)).eval()
    target = Target(online)
    assert not online.training
    output = target(torch.tensor([[1.0], [3.0]]))
    torch.testing.assert_close(output, torch.tensor([[-1.0], [1.0]]), atol=1e-4, rtol=0)
    assert target.module[0].running_mean.item() == pytest.approx(0.2)
    assert online[0].running_mean.item() == 0.0


def test_no_gradient_passes_through_the_target_and_the_online_network_still_has_one():
    online = network(0)
    target = Target(online)
    inputs = torch.randn(4, 3, requires_grad=True)
    assert not target(inputs).requires_grad
    assert not any(parameter.requires_grad for parameter in target.module.parameters())
    ((online(inputs) - target(inputs)) ** 2).sum().backward()
    target.update_(online, 0.5)
    assert all(parameter.grad is not None for parameter in online.parameters())
    assert all(parameter.grad is None for parameter in target.module.parameters())
    assert not any(parameter.requires_grad for parameter in target.module.parameters())


@pytest.mark.parametrize(
    "other", [nn.Linear(1, 1, bias=False), nn.Sequential(nn.Linear(1, 1)), nn.Identity()]
)
def test_an_online_network_with_other_parameters_is_refused(other):
    target = Target(linear(1.0))
    with pytest.raises(ValueError, match="parameters"):
        target.update_(other, 0.5)
    assert target.module.weight.item() == 1.0


@pytest.mark.parametrize("decay", [-0.1, 1.001, float("nan")])
def test_a_decay_outside_the_unit_interval_is_refused(decay):
    target = Target(linear(1.0))
    with pytest.raises(ValueError, match="decay"):
        target.update_(linear(3.0), decay)
    assert target.module.weight.item() == 1.0


def test_a_restored_target_goes_on_identically():
    online, inputs = network(2), torch.randn(6, 3)
    original = Target(network(0))
    original(inputs)
    original.update_(online, 0.9)
    restored = Target(network(1))
    restored.load_state_dict({name: value.clone() for name, value in original.state_dict().items()})
    for target in (original, restored):
        target.update_(online, 0.9)
        target(inputs + 1)
    ours, theirs = original.state_dict(), restored.state_dict()
    assert ours.keys() == theirs.keys()
    assert int(theirs["1.num_batches_tracked"]) == 2
    assert_equal(ours.values(), theirs.values())
    assert torch.equal(original(inputs), restored(inputs))


def test_an_input_of_one_image_is_a_batch_like_any_other():
    target = Target(linear(2.0, bias=1.0))
    assert target(torch.tensor([[3.0]])).tolist() == [[7.0]]


def test_parameters_of_another_shape_are_refused_even_if_they_would_broadcast():
    target = Target(nn.Linear(2, 3))
    for decay in (0.0, 0.5):
        with pytest.raises(ValueError, match="differ in parameters"):
            target.update_(nn.Linear(2, 1), decay)


@pytest.mark.parametrize("decay", [0.0, 0.25, 0.996, 1.0])
def test_a_decay_on_the_device_gives_the_same_average(decay):
    one, other, online = Target(network(0)), Target(network(0)), network(1)
    one.update_(online, decay)
    other.update_(online, torch.tensor(decay))
    for expected, found in zip(one.module.parameters(), other.module.parameters(), strict=True):
        torch.testing.assert_close(found, expected)
