from functools import partial

import pytest
import torch

from semppl.nets.encoder import create_encoder
from semppl.saliency.network import ENCODER, Segmenter, _places


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Segmenter(3).eval()


@torch.no_grad()
@pytest.mark.parametrize("size", [(32, 32), (33, 47), (64, 32), (31, 1), (1, 1), (97, 50)])
def test_maps_are_as_large_as_the_image(net, size):
    maps = net(torch.randn(2, 3, *size))
    assert maps.shape == (2, 3, *size)
    assert maps.isfinite().all()


@torch.no_grad()
def test_images_of_a_batch_do_not_see_each_other(net):
    images = torch.randn(3, 3, 32, 40)
    assert torch.allclose(net(images)[1:2], net(images[1:2]), atol=1e-4)


@torch.no_grad()
def test_weights_of_an_encoder_are_taken_in_and_used_as_it_uses_them():
    encoder = create_encoder(ENCODER, last_scale=1.0).eval()
    for name, buffer in encoder.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    mine = Segmenter(1).eval()
    mine.encoder.load_state_dict(encoder.state_dict())
    images = torch.randn(2, 3, 64, 64)
    *sides, deep = mine._down(images)
    assert encoder(images).std() > 0.1
    assert torch.allclose(deep.mean((2, 3)), encoder(images), atol=1e-5)
    assert [side.shape[-1] for side in (*sides, deep)] == [32, 16, 8, 4, 2]


def test_gradients_reach_every_parameter():
    net = Segmenter(2).train()
    net(torch.randn(2, 3, 64, 64)).square().sum().backward()
    unreached = [name for name, value in net.named_parameters() if value.grad is None or not value.grad.any()]
    assert unreached == []


@torch.no_grad()
def test_each_map_has_weights_of_its_own(net):
    maps = net(torch.randn(1, 3, 32, 32))
    assert not torch.allclose(maps[:, 0], maps[:, 1])
    assert not torch.allclose(maps[:, 1], maps[:, 2])


@torch.no_grad()
def test_one_end_is_seen_at_the_other(monkeypatch):
    """Through the mean over the whole image: convolutions do not reach so far."""
    monkeypatch.setattr("semppl.saliency.network.create_encoder", partial(create_encoder, width=0.125))
    net = Segmenter(1).eval()
    far = torch.zeros(1, 3, 1024, 32)
    near = far.clone()
    near[:, :, :32] = 3
    assert (net(far) - net(near))[..., -8:, :].abs().max() > 1e-6
    net.whole.weight.zero_()
    assert (net(far) - net(near))[..., -8:, :].abs().max() == 0


def test_places_by_hand():
    places = _places(torch.zeros(2, 5, 3, 2))
    rows = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    columns = torch.tensor([[-1.0, 1.0]] * 3)
    assert torch.equal(places, torch.stack([rows, columns]).expand(2, 2, 3, 2))
    assert _places(torch.zeros(1, 1, 1, 1)).isfinite().all()
    assert _places(torch.zeros(1, 1, 2, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16
