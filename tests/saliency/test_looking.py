import numpy as np
import pytest
from tests.saliency.stubs import Network, save, square_image, use_brightness

from semppl.saliency.baselines import BASELINES
from semppl.saliency.learning import refined_maps
from semppl.saliency.looking import look_at, with_refined
from semppl.saliency.reading import Item


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    return use_brightness(monkeypatch)


@pytest.fixture
def item(tmp_path):
    return Item("a.png", "a.png.png", str(save(tmp_path / "a.png", square_image(512, 256))))


def test_all_maps_have_the_size_at_work(item):
    look = look_at(item, None, baselines=True)
    assert list(look.maps) == ["bright", "dark", "fused", "fused, cut", *BASELINES]
    assert {map_hw.shape for map_hw in look.maps.values()} == {(256, 128)}
    assert {map_hw.dtype for map_hw in look.maps.values()} == {np.dtype(np.uint8)}
    assert (look.size, look.image_hw3.shape, look.square_3ss) == ((512, 256), (256, 128, 3), None)
    assert list(look_at(item, None, baselines=False).maps) == ["bright", "dark", "fused", "fused, cut"]


def test_the_networks_map_stands_behind_the_fused_one(item):
    def refine(images_B3ss):
        return refined_maps(Network(), images_B3ss)

    look = with_refined(look_at(item, Network.size, baselines=True), refine)
    assert list(look.maps) == ["bright", "dark", "fused", "fused, cut", "refined", *BASELINES]
    assert look.maps["refined"].shape == (256, 128)
    np.testing.assert_array_equal(look.maps["refined"] > 127, look.maps["fused"] > 127)
    without = look_at(item, None, baselines=False)
    assert with_refined(without, refine) is with_refined(without, None) is without


def test_an_image_that_cannot_be_read_is_not_looked_at(tmp_path):
    assert look_at(Item("x", "x", str(tmp_path / "none.png")), None, baselines=False) is None
