from types import SimpleNamespace

import pytest
import torch
from torch import nn

import semppl.bench.lightly as peer
from semppl.bench.workload import build_workload
from semppl.core.errors import UserError


def test_where_it_is_not_installed_that_is_said(monkeypatch):
    monkeypatch.setattr(peer, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="--compare lightly: it is not installed"):
        peer.require_lightly()


def two_views(image):
    view = torch.randn(3, 8, 8)
    return [view, view + image.size[0]]


def stand_ins(calls):
    """The names that lightly has, with next to nothing behind them."""

    def head(inputs=8, hidden=8, outputs=8):
        return nn.Linear(inputs, outputs)

    def transform(*_, input_size=None, gaussian_blur=None):
        calls.append(("transform", input_size, gaussian_blur))
        return two_views

    def loss():
        return lambda one, other: (one - other).square().mean()

    def update_momentum(online, target, m):
        calls.append(("momentum", m))

    return {
        "lightly": SimpleNamespace(__version__="9"),
        "lightly.transforms": SimpleNamespace(SimCLRTransform=transform, BYOLTransform=transform),
        "lightly.transforms.byol_transform": SimpleNamespace(
            BYOLView1Transform=transform, BYOLView2Transform=transform
        ),
        "lightly.loss": SimpleNamespace(NTXentLoss=loss, NegativeCosineSimilarity=loss),
        "lightly.models.modules": SimpleNamespace(
            SimCLRProjectionHead=head,
            BYOLProjectionHead=lambda inputs: head(inputs, 8, 256),
            BYOLPredictionHead=head,
        ),
        "lightly.models.utils": SimpleNamespace(update_momentum=update_momentum),
    }


def test_both_methods_are_timed_alone_and_with_their_transforms(tiny, monkeypatch):
    calls = []
    monkeypatch.setattr(peer, "import_module", stand_ins(calls).__getitem__)
    result = peer.time_lightly(build_workload(tiny), tiny)
    assert (result["version"], result["workers"]) == ("9", 0)
    for method in peer.METHODS:
        assert all(value > 0 for value in result[method].values())
    assert ("transform", 8, 0.0) in calls
    assert ("momentum", 0.99) in calls
