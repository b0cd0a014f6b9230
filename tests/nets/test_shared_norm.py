import pytest
import torch
from tests.train.world import in_ranks
from timm.layers.norm_act import BatchNormAct2d
from torch import nn

from semppl.nets.shared_norm import SharedBatchNorm, share_statistics_

SHAPES = {"rows": (7, 3), "maps": (7, 3, 4, 5)}


def layers():
    rows, maps, fused = nn.BatchNorm1d(3), nn.BatchNorm2d(3, momentum=None), BatchNormAct2d(3)
    for layer in (rows, maps, fused):
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([1.0, -2.0, 0.5]))
            layer.bias.copy_(torch.tensor([0.1, 0.0, -0.3]))
    return {"rows": rows.double(), "maps": maps.double(), "fused": fused.double()}


def data(shape):
    """Far from zero, where E[x²] − E[x]² would lose its digits."""
    generator = torch.Generator().manual_seed(0)
    x = 1e4 + torch.randn(shape, generator=generator, dtype=torch.double)
    return x, torch.randn(shape, generator=generator, dtype=torch.double)


def passed(ranks, device):
    """Two passes forward, one back, one in evaluation mode, for each kind of layer."""
    seen = {}
    for name, layer in layers().items():
        holder = nn.ModuleDict({"inner": nn.Sequential(layer)})
        if ranks is not None:
            share_statistics_(holder, ranks.group)
        x, weight = data(SHAPES["rows" if name == "rows" else "maps"])
        rows = slice(None) if ranks is None else ranks.rows(7).slice
        mine = x[rows].clone().requires_grad_()
        holder["inner"](x[rows] * 0.5)
        out = holder["inner"](mine)
        (out * weight[rows]).sum().backward()
        new = holder["inner"][0]
        seen[name] = {
            "out": out.detach(),
            "gradient": mine.grad,
            "weight": new.weight.grad,
            "bias": new.bias.grad,
            "state": dict(holder.state_dict()),
            "evaluated": holder.eval()["inner"](x[rows]).detach(),
            "kind": type(new).__name__,
        }
    return seen


@pytest.fixture(scope="module")
def one():
    return passed(None, None)


@pytest.fixture(scope="module", params=[2, 3])
def many(request):
    return in_ranks(request.param, passed)


@pytest.mark.parametrize("name", ["rows", "maps", "fused"])
def test_ranks_together_are_one_batch_norm(one, many, name):
    expected = one[name]
    for part in ("out", "gradient", "evaluated"):
        together = torch.cat([rank[name][part] for rank in many])
        assert torch.allclose(together, expected[part], rtol=1e-8, atol=1e-8), part
    for part in ("weight", "bias"):  # each rank has its share of the sum
        together = torch.stack([rank[name][part] for rank in many]).sum(0)
        assert torch.allclose(together, expected[part], rtol=1e-8, atol=1e-8), part
    for rank in many:
        assert rank[name]["kind"] == "SharedBatchNorm"
        assert rank[name]["state"].keys() == expected["state"].keys()
        for key, value in expected["state"].items():
            assert torch.allclose(rank[name]["state"][key], value, rtol=1e-8), key


def test_weights_stay_the_objects_that_an_optimiser_knows():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    before = list(net.parameters())
    share_statistics_(net, object())
    assert isinstance(net[1], SharedBatchNorm)
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert torch.equal(net.eval()(torch.ones(1, 3, 2, 2)), net(torch.ones(1, 3, 2, 2)))


def test_a_rate_of_zero_keeps_the_statistics():
    norm = nn.BatchNorm1d(2)
    norm.momentum = 0.0
    shared = SharedBatchNorm(norm, object())
    shared._follow_(torch.ones(2), torch.ones(2) * 5)
    assert shared.running_mean.tolist() == [0.0, 0.0]
    assert shared.running_var.tolist() == [1.0, 1.0]
    assert int(shared.num_batches_tracked) == 1


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="not 3 axes"):
        SharedBatchNorm(nn.BatchNorm1d(2), object())(torch.ones(2, 2, 2))
