import math
from copy import deepcopy

import torch
from torch import nn
from torch.nn import functional as F

from semppl.core.rng import generator
from semppl.evaluate.descent import shuffled
from semppl.evaluate.probe import train_probe
from semppl.nets.initialise import create_linear

CPU = torch.device("cpu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        assert not self.training
        return self.norm(x).flatten(1)


def views(labels):
    images = torch.zeros(len(labels), 3, 1, 1)
    images[torch.arange(len(labels)), labels] = 1
    return lambda index, rng: images[index]


def probe(encoder, labels, epochs, seed=0, batch=4):
    examples = shuffled(views(labels), labels, classes=3, batch_size=batch, seed=seed, name="probe")
    return train_probe(
        encoder,
        examples,
        num_features=3,
        num_labels=len(labels),
        classes=3,
        epochs=epochs,
        batch_size=batch,
        seed=seed,
        device=CPU,
    )


def test_every_step_by_hand():
    labels = torch.tensor([0, 1, 2, 0])
    found = probe(Encoder().train(), labels, epochs=3)
    weight = create_linear(3, 3, generator(0, "probe/classifier")).weight.detach().clone()
    bias, momentum = torch.zeros(3), [torch.zeros(3, 3), torch.zeros(3)]
    examples = shuffled(views(labels), labels, classes=3, batch_size=4, seed=0, name="probe")
    for step in range(3):
        x, y = examples(step)
        x = x.flatten(1) / math.sqrt(1 + 1e-5)  # batch norm with the statistics that it starts with
        error = (torch.softmax(x @ weight.T + bias, 1) - F.one_hot(y, 3)) / 4
        lr = 0.3 * 4 / 256 * 0.5 * (1 + math.cos(math.pi * step / 3))
        for i, (value, gradient) in enumerate([(weight, error.T @ x), (bias, error.sum(0))]):
            momentum[i] = 0.9 * momentum[i] + gradient
            value.sub_(lr * (gradient + 0.9 * momentum[i]))
    assert torch.allclose(found.classifier.weight, weight, atol=1e-6)
    assert torch.allclose(found.classifier.bias, bias, atol=1e-6)


def test_the_encoder_stays_as_it_is():
    encoder = Encoder().train()
    before = deepcopy(encoder.state_dict())
    found = probe(encoder, torch.arange(6) % 3, epochs=4)
    assert found.encoder is encoder
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert all(p.grad is None for p in encoder.parameters())


def test_what_can_be_separated_is_and_the_seed_decides():
    labels = torch.arange(12) % 3
    found = probe(Encoder(), labels, epochs=400)
    assert torch.equal(found(views(labels)(torch.arange(12), None)).argmax(1), labels)
    one, same, other = (probe(Encoder(), labels, epochs=1, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.classifier.weight, same.classifier.weight)
    assert not torch.equal(one.classifier.weight, other.classifier.weight)
