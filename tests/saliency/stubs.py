"""Sources that see brightness, and a network that does, so that tests know what masks must be."""

import numpy as np
import torch
from PIL import Image

from semppl.saliency import examples, learning, looking, making, run

NAMES = {"bright": None, "dark": None}


def brightness(image_HW3):
    """A map for each of NAMES."""
    bright = image_HW3.mean(2).astype(np.float32) / 255
    return np.stack([bright, 1 - bright])


class Network:
    """Sees brightness, too, at 16 px."""

    size = 16
    loads = 0

    @classmethod
    def load(cls, path, device):
        assert path.read_text() == "a network"
        cls.loads += 1
        return cls()

    def save(self, path):
        path.write_text("a network")

    def __call__(self, images_B3ss):
        return images_B3ss.float().mean(1) / 255


class Calls(list):
    """Whose work was asked for."""


def use_brightness(monkeypatch):
    """The stubs in the places of sources, fusion and network; gives the images that were estimated."""
    calls = Calls()

    def source_maps(image_HW3):
        calls.append(image_HW3.shape)
        return brightness(image_HW3)

    def train_refiner(images_N3ss, maps_NKss, pool_P3ss, *, device, seed, place, spread, advance):
        assert images_N3ss.dtype == maps_NKss.dtype == pool_P3ss.dtype == torch.uint8
        assert len(pool_P3ss) >= len(images_N3ss)
        assert list(spread(abs, iter([-1, 2]))) == [1, 2]
        assert maps_NKss.shape[1:] == (len(NAMES), Network.size, Network.size)
        advance("learning", 1, 1)
        calls.append(("trained", len(images_N3ss), seed, place))
        return Network()

    for module in (examples, making):
        monkeypatch.setattr(module, "source_maps", source_maps)
    for module in (examples, looking, run):
        monkeypatch.setattr(module, "SOURCES", NAMES)
    monkeypatch.setattr(making, "fused", lambda maps_KHW: maps_KHW[0])
    monkeypatch.setattr(learning, "SIZE", Network.size)
    monkeypatch.setattr(learning, "Refiner", Network)
    monkeypatch.setattr(learning, "train_refiner", train_refiner)
    return calls


def square_image(height=128, width=128, top=0, share=0.5):
    """Bright from the row `top` on over a share of the rows, dark elsewhere; grey."""
    image = np.zeros((height, width, 3), np.uint8)
    image[top : top + round(share * height)] = 255
    return image


def save(path, image_HW3):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image_HW3).save(path)
    return path
