from copy import deepcopy

import pytest
import torch
from tests.train.test_capture import training
from tests.train.test_state import same
from torch import nn

from semppl.nets.heads import Projected, create_head, unit
from semppl.train.encode import PLAIN, predictions, projections, statistics_kept
from semppl.train.step import train_step_


class WithoutNorm(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.layers(x)


def with_norm():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


def networks(encoder, head):
    torch.manual_seed(0)
    return Projected(encoder(), head(6, 4)), head(4, 4)


def plain_head(inputs, outputs):
    return nn.Linear(inputs, outputs)


def normed_head(inputs, outputs):
    return create_head(inputs, 8, outputs)


def views(count=3, images=8):
    return [torch.randn(images, 3, 6, 6, generator=torch.Generator().manual_seed(i)) for i in range(count)]


def loss_of(online_ABD):
    """Every image against every other: a loss that cannot be had part by part."""
    flat = online_ABD.flatten(0, 1)
    return (flat @ flat.T / 0.2).logsumexp(1).mean()


def gradients(online, predictor, views_A, size):
    online_ABD = predictions(views_A, online, predictor, PLAIN, size)
    loss_of(online_ABD).backward()
    return online_ABD.detach(), [p.grad for p in [*online.parameters(), *predictor.parameters()]]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_parts_of_any_size_give_the_gradient_of_the_whole_batch(size):
    whole, parts = networks(WithoutNorm, plain_head), networks(WithoutNorm, plain_head)
    expected, wanted = gradients(*whole, views(), None)
    found, given = gradients(*parts, views(), size)
    torch.testing.assert_close(found, expected)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_parts_as_large_as_the_batch_change_no_number_and_no_statistic():
    whole, parts = networks(with_norm, normed_head), networks(with_norm, normed_head)
    expected, wanted = gradients(*whole, views(), None)
    found, given = gradients(*parts, views(), 8)
    assert torch.equal(found, expected)
    assert all(torch.equal(one, other) for one, other in zip(given, wanted, strict=True))
    for one, other in zip(parts, whole, strict=True):
        for name, value in other.state_dict().items():
            assert torch.equal(one.state_dict()[name], value), name


def test_in_smaller_parts_batch_norm_sees_a_part_and_counts_it_once():
    online, predictor = networks(with_norm, normed_head)
    reference, reference_predictor = deepcopy(online), deepcopy(predictor)
    view = views(1)[0]
    found, given = gradients(online, predictor, [view], 4)
    outputs = torch.cat([reference_predictor(reference(part)) for part in view.split(4)])
    loss_of(unit(outputs)[None]).backward()
    torch.testing.assert_close(found[0], unit(outputs.detach()))
    wanted = [p.grad for p in [*reference.parameters(), *reference_predictor.parameters()]]
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)
    norm, expected = online.encoder[1], reference.encoder[1]
    assert torch.equal(norm.running_mean, expected.running_mean)
    assert int(norm.num_batches_tracked) == int(expected.num_batches_tracked) == 2


def test_parts_keep_no_activations_of_the_forward_pass():
    online, predictor = networks(with_norm, normed_head)

    def saved_with(size):
        saved = []

        def keep(tensor):
            saved.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            predictions(views(), online, predictor, PLAIN, size)
        return sum(saved)

    inputs, outputs = 3 * 8 * 3 * 36, 3 * 8 * 4
    # the views themselves, and what the normalisation of the outputs keeps
    assert saved_with(8) <= inputs + 4 * outputs
    assert saved_with(None) > 3 * inputs


def test_projections_have_no_gradient_and_the_same_parts():
    target, _ = networks(with_norm, normed_head)
    twin = deepcopy(target)
    found = projections(views(2), target, PLAIN, 4)
    assert not found.requires_grad
    expected = torch.stack([torch.cat([twin(part) for part in view.split(4)]) for view in views(2)])
    torch.testing.assert_close(found, unit(expected.detach()))


def test_statistics_are_kept_inside_and_counted_again_outside():
    norm = nn.BatchNorm1d(2)
    x = torch.randn(8, 2) + 3
    with statistics_kept([norm]):
        torch.testing.assert_close(norm(x).mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(norm.running_mean, torch.zeros(2))
    norm(x)
    assert int(norm.num_batches_tracked) == 1
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(0))


def test_a_step_in_parts_as_large_as_the_batch_is_the_same_step(npz):
    plain, parts = training(npz), training(npz, micro_batch=16)
    for i in range(2):
        expected = train_step_(plain.state, plain.feed(i), plain.plan)
        found = train_step_(parts.state, parts.feed(i), parts.plan)
        assert torch.equal(found.terms.total, expected.terms.total)
    assert same(parts.state.online.state_dict(), plain.state.online.state_dict())


def test_a_step_in_smaller_parts_trains(npz):
    run = training(npz, micro_batch=4)
    outcome = train_step_(run.state, run.feed(0), run.plan)
    assert torch.isfinite(outcome.terms.total)
    assert outcome.votes is not None
