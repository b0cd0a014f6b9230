from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.saliency.stubs import save, square_image

from semppl.core.errors import UserError
from semppl.data.digits import load_digits
from semppl.data.paths import Paths
from semppl.data.torchvision import Named
from semppl.saliency import items as module
from semppl.saliency.items import items_of


def test_a_folder_gives_all_images_below_it_but_no_masks(tmp_path):
    for name in ("b/2.png", "a.jpg", ".hidden.png", "photos.masks/masks/a.jpg.png"):
        save(tmp_path / name, square_image(4, 4))
    (tmp_path / "photos.masks" / "masks.json").write_text("{}")
    items = items_of(str(tmp_path), None)
    assert [items[i].name for i in range(len(items))] == ["a.jpg", "b/2.png"]
    assert list(items.masks()) == ["a.jpg.png", "b/2.png.png"] == [items[i].mask for i in range(2)]
    assert items[1].image == str(tmp_path / "b" / "2.png")


def test_folders_that_cannot_be_opened_are_named(tmp_path, monkeypatch):
    found = SimpleNamespace(paths=Paths(["a.png"]), unreadable_folders=["secret"])
    monkeypatch.setattr(module, "list_images", lambda _: found)
    assert items_of(str(tmp_path), None).notes == ("secret/ cannot be opened: left out",)


def test_arrays_are_named_by_their_numbers(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), np.uint8)
    np.savez(tmp_path / "x.npz", x=x)
    items = items_of(str(tmp_path / "x.npz"), None)
    assert list(items.masks()) == ["000000.png", "000001.png", "000002.png"]
    np.testing.assert_array_equal(items[2].image, x[2])
    assert items[2].name == "000002"


@pytest.mark.parametrize("given", [True, False])
def test_a_file_may_have_masks_of_its_own(given, tmp_path):
    own = {"masks": np.ones((3, 5, 4), bool)} if given else {}
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 5, 4, 3), np.uint8), **own)
    assert items_of(str(tmp_path / "x.npz"), None).own_masks == given


def test_the_digits_are_those_of_training():
    items = items_of("digits", None)
    images = load_digits().images
    assert len(items) == len(images)
    np.testing.assert_array_equal(items[7].image, images[7].permute(1, 2, 0).numpy())


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_named_set_gives_its_training_images(in_memory, tmp_path, monkeypatch):
    paths = [str(tmp_path / name) for name in ("set/x/1.png", "set/y/2.png")]
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8) if in_memory else paths
    asked = []

    def load(name, root):
        asked.append((name, root))
        return Named(("x", "y"), images, torch.tensor([0, 1]), None, None)

    monkeypatch.setattr(module, "load_torchvision", load)
    items = items_of("cifar10", str(tmp_path))
    assert asked == [("CIFAR10", tmp_path)]
    assert list(items.masks()) == (
        ["000000.png", "000001.png"] if in_memory else ["x/1.png.png", "y/2.png.png"]
    )
    if not in_memory:
        assert [items[0].image, items[1].image] == paths


def test_parts_cover_the_numbers_asked_for():
    items = items_of("digits", None)
    parts = [[item.mask for item in part] for part in items.parts([4, 2, 9], 2)]
    assert parts == [["000004.png", "000002.png"], ["000009.png"]]


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such data"):
        items_of("nowhere", None)
    with pytest.raises(UserError, match="no image found"):
        items_of(str(tmp_path), None)
