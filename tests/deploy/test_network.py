import numpy as np
import pytest
import torch
from PIL import Image
from tests.deploy.conftest import build
from torch import nn

from semppl.config import NetConfig
from semppl.deploy.network import Architecture
from semppl.nets.initialise import initialise_
from semppl.nets.padding import PADDINGS
from semppl.views.whole import whole_crop


def photo(height=13, width=17):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_an_image_is_prepared_by_hand(make_network):
    network, pixels = make_network(), photo()
    crop = whole_crop(8, torch.from_numpy(pixels).permute(2, 0, 1)).float() / 255
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.25])
    expected = (crop - mean[:, None, None]) / std[:, None, None]
    assert torch.allclose(network.preprocess(pixels), expected, atol=1e-6)


def test_a_file_an_image_an_array_and_a_tensor_are_the_same(make_network, tmp_path):
    network, pixels = make_network(), photo()
    Image.fromarray(pixels).save(tmp_path / "a.png")
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    given = (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(pixels), pixels, tensor)
    first, *others = (network.preprocess(each) for each in given)
    assert first.shape == (3, 8, 8)
    assert all(torch.equal(first, other) for other in others)


def test_images_of_pillow_are_upright_and_in_colour(make_network):
    network = make_network()
    lying = Image.fromarray(photo()).rotate(90, expand=True)
    exif = lying.getexif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    lying.info["exif"] = exif.tobytes()
    again = Image.frombytes("RGB", lying.size, lying.tobytes())
    again.info["exif"] = exif.tobytes()
    again.getexif()[0x0112] = 6
    assert torch.equal(network.preprocess(again), network.preprocess(photo()))
    grey = Image.fromarray(photo()[:, :, 0])
    assert torch.equal(network.preprocess(grey), network.preprocess(np.stack([photo()[:, :, 0]] * 3, 2)))


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4), np.uint8),
        torch.zeros(1, 4, 4, dtype=torch.uint8),
        torch.zeros(3, 4, 4),
        [[1, 2], [3, 4]],
    ],
)
def test_what_is_no_image_is_said(make_network, odd):
    with pytest.raises(ValueError, match=r"uint8 as a tensor \[3,H,W\] or an array \[H,W,3\], not"):
        make_network().preprocess(odd)


def test_an_array_that_may_not_be_written_to(make_network):
    pixels = photo()
    expected = make_network().preprocess(pixels)
    pixels.flags.writeable = False
    assert torch.equal(make_network().preprocess(pixels), expected)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "L", "CMYK"])
def test_an_open_image_is_seen_as_its_file_is(make_network, tmp_path, mode):
    """Transparency lies over white, deep grey loses its lower bits."""
    if mode == "I;16":
        image = Image.fromarray(photo()[:, :, 0].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(np.dstack([photo(), photo()[:, :, 0]]), "RGBA").convert(mode)
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    image.save(path)
    network = make_network()
    with Image.open(path) as opened:
        assert torch.equal(network.preprocess(opened), network.preprocess(path))


def test_answers_are_logits_or_features(make_network):
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        network = make_network()
        assert network(x).shape == (2, 3)
        assert torch.equal(network(x), network.head(network.encoder(x)))
        assert torch.equal(network.features(x), network.encoder(x))
        alone = make_network(classes=())
        assert torch.equal(alone(x), alone.encoder(x))
    with pytest.raises(ValueError, match="no classifier"):
        alone.logits(torch.zeros(1, 2))


def test_statistics_move_with_the_network_and_are_no_weights(make_network):
    network = make_network()
    assert not any(name.startswith(("mean", "std")) for name in network.state_dict())
    assert network.to("meta").mean_3.device.type == "meta"


@pytest.mark.parametrize("sk", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
def test_an_architecture_makes_the_network_it_describes(sk, padding):
    net = NetConfig(encoder="resnet50", width=0.25, stem="imagenet", sk=sk, padding=padding)
    architecture = Architecture.of(net)
    network = build("resnet50", width=0.25, stem="imagenet", sk=sk, padding=padding, classes=())
    again = architecture.create(network.encoder.state_dict())
    x = torch.randn(1, 3, 36, 36)
    with torch.no_grad():
        assert torch.equal(again(x), network(x))
    assert not again.training
    assert architecture == network.architecture


def test_no_weights_are_drawn_for_an_architecture_that_has_them(make_network, monkeypatch):
    network = make_network()

    def draw(*_, **__):
        raise AssertionError("these would be replaced")

    monkeypatch.setattr("semppl.nets.resnet.initialise_", initialise_)
    monkeypatch.setattr(nn.init, "trunc_normal_", draw)
    weights = network.encoder.state_dict()
    again = network.architecture.create(weights).state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in again.items())


def test_a_configuration_from_before_there_was_a_choice_has_symmetric_padding():
    assert Architecture.of(NetConfig(encoder="resnet10", width=1, stem="small")).padding == "symmetric"
