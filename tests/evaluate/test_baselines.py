import math

import torch
from tests.conftest import stripes
from torch import nn
from torch.nn import functional as F

from semppl.evaluate import baselines
from semppl.evaluate.baselines import supervised_epochs, train_by_sgd, train_supervised_
from semppl.evaluate.features import extract_features
from semppl.nets.encoder import create_encoder
from semppl.views.recipe import View


def supervised(seed):
    torch.manual_seed(3)
    labels = torch.arange(12) % 3
    images = torch.from_numpy(stripes(labels.tolist()))[:, None].expand(-1, 3, -1, -1)
    encoder = create_encoder("resnet10", width=0.0625, stem="small", last_scale=1.0)
    mean, std = torch.full((3,), 0.15), torch.full((3,), 0.3)
    head = train_supervised_(
        encoder,
        images,
        labels,
        num_features=encoder.num_features,
        classes=3,
        view=View(size=8, min_area=0.9, flip=0.0, jitter=0.0, grey=0.0),
        mean_3=mean,
        std_3=std,
        steps=40,
        seed=seed,
    )
    features = extract_features(encoder, images, size=8, mean_3=mean, std_3=std)
    return head(features).argmax(1), labels, head


def test_it_learns_its_labels():
    predicted, labels, _ = supervised(seed=0)
    assert (predicted == labels).float().mean() > 0.9


def test_it_is_a_function_of_the_seed():
    assert torch.equal(supervised(0)[2].weight, supervised(0)[2].weight)
    assert not torch.equal(supervised(0)[2].weight, supervised(1)[2].weight)


def test_epochs_are_200_or_as_many_as_3000_steps_need():
    assert supervised_epochs(50_000, 128) == 200
    assert supervised_epochs(4000, 128) == 200
    assert supervised_epochs(250, 128) == math.ceil(3000 * 128 / 250)
    assert supervised_epochs(40, 40) == 3000
    assert supervised_epochs(1, 2) == 6000, "a single image is shown twice"


def by_sgd(steps=20, seed=0, **how):
    """A linear encoder of two features, and what it was shown."""
    encoder = nn.Linear(2, 2, bias=False)
    nn.init.eye_(encoder.weight)
    encoder.requires_grad_(requires_grad=False)
    views, labels = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
    options = {"num_features": 2, "classes": 2, "batch_size": 64, "device": torch.device("cpu"), **how}
    return train_by_sgd(encoder, lambda _: (views, labels), steps=steps, seed=seed, **options), views


def test_sgd_is_nesterov_with_a_warm_up_a_cosine_and_decay():
    start = by_sgd(steps=0)[0]
    weights = [p.detach().clone().requires_grad_() for p in start.parameters()]
    speed = [torch.zeros_like(p) for p in weights]
    steps, views, labels = 20, by_sgd(steps=0)[1], torch.tensor([0, 1])
    for step in range(steps):
        encoder, head, bias = weights
        loss = F.cross_entropy(views @ encoder.T @ head.T + bias, labels)
        slopes = torch.autograd.grad(loss, weights)
        # 64 of 128 images: half of 0.1; one step of twenty is the warm-up, and its first rate is 0
        rate = 0.0 if step == 0 else 0.05 * (1 + math.cos(math.pi * (step - 1) / 19)) / 2
        for i, slope in enumerate(slopes):
            slope = slope + (5e-4 * weights[i] if weights[i].ndim > 1 else 0)  # noqa: PLW2901
            speed[i] = 0.9 * speed[i] + slope
            weights[i] = (weights[i] - rate * (slope + 0.9 * speed[i])).detach().requires_grad_()
    model, _ = by_sgd(steps)
    for mine, expected in zip(model.parameters(), weights, strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)
    assert not model.training


def test_sgd_trains_a_frozen_encoder_too_and_its_classifier_is_a_function_of_the_seed():
    assert not torch.equal(by_sgd()[0][0].weight, torch.eye(2))
    assert torch.equal(by_sgd(0, seed=1)[0][1].weight, by_sgd(0, seed=1)[0][1].weight)
    assert not torch.equal(by_sgd(0, seed=0)[0][1].weight, by_sgd(0, seed=1)[0][1].weight)


def test_sgd_says_how_far_it_is_and_trains_in_the_given_precision(monkeypatch):
    heard, seen = [], []
    monkeypatch.setattr(
        baselines, "descend_", lambda *args, means, advance, **_: seen.append((means, advance))
    )
    by_sgd(means="low", advance=heard.append)
    assert seen == [("low", heard.append)]
