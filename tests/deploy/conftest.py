"""Networks whose outputs depend on every weight and every statistic."""

import pytest
import torch
from torch import nn

from semppl.deploy.model import Model, linear_head
from semppl.deploy.network import Architecture, Network
from semppl.evaluate.bank import build_bank
from semppl.nets.encoder import create_encoder
from semppl.views.preprocessing import Preprocessing

CLASSES = ("cat", "dog", "owl")


@pytest.fixture(autouse=True)
def _drawn(weights_as_torch_draws_them):
    pass


def shake_(module):
    """Normalisation as after training: nothing is 0 or 1."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            for values in (layer.weight.data, layer.running_var):
                values.uniform_(0.5, 1.5)
            for values in (layer.bias.data, layer.running_mean):
                values.normal_(0, 0.1)


def hidden_head(features, outputs, hidden=5):
    layers = nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True))
    return nn.Sequential(layers, nn.Linear(hidden, outputs))


def build(
    encoder="resnet10",
    *,
    width=0.0625,
    stem="small",
    sk=False,
    padding="symmetric",
    size=8,
    classes=CLASSES,
    hidden=False,
    crop="middle",
):
    torch.manual_seed(1)
    architecture = Architecture(encoder, width, stem, sk, padding)
    net = create_encoder(encoder, width=width, sk=sk, stem=stem, padding=padding)
    head = None
    if classes:
        outputs, features = len(classes), net.num_features
        head = linear_head(torch.randn(outputs, features), torch.randn(outputs))
        head = hidden_head(features, outputs) if hidden else head
    network = Network(
        architecture,
        net,
        Preprocessing(size, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25), crop),
        head=head,
        classes=tuple(classes),
    )
    shake_(network)
    return network.eval()


@pytest.fixture
def make_network():
    """A tiny network with a classifier; anything about it can be changed."""
    return build


@pytest.fixture
def make_model():
    """The same with six labelled images that vote."""

    def make(decides="linear", **changes):
        network = build(**changes)
        features_LF = torch.randn(6, network.encoder.num_features)
        bank = build_bank(features_LF, torch.arange(6) % 3, 3)
        return Model(network, decides, bank, [f"{i}.png" for i in range(6)])

    return make
