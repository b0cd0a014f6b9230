import numpy as np
import pytest
from tests.saliency.stubs import save, square_image, use_brightness

from semppl.saliency.examples import example_part
from semppl.saliency.reading import Item, content_of


@pytest.fixture
def calls(monkeypatch):
    return use_brightness(monkeypatch)


@pytest.fixture
def item(tmp_path):
    path = save(tmp_path / "a.png", square_image(256, 128))
    (tmp_path / "maps").mkdir()
    return Item("a.png", "a.png.png", str(path))


def test_an_example_is_the_image_and_its_maps_in_the_networks_size(item, tmp_path, calls):
    (example,) = example_part([item], str(tmp_path / "maps"), side=16)
    assert (example.image_3ss.shape, example.maps_Kss.shape) == ((3, 16, 16), (2, 16, 16))
    np.testing.assert_array_equal(example.maps_Kss[0], example.image_3ss[0])
    np.testing.assert_array_equal(example.maps_Kss[1], 255 - example.maps_Kss[0])
    assert example.maps_Kss[0].mean() == 127.5


def test_maps_are_kept_by_content(item, tmp_path, calls):
    first, again = (example_part([item], str(tmp_path / "maps"), side=16)[0] for _ in range(2))
    np.testing.assert_array_equal(first.maps_Kss, again.maps_Kss)
    assert len(calls) == 1
    assert [file.stem for file in (tmp_path / "maps").iterdir()] == [content_of(item.image)]


@pytest.mark.parametrize("size", [8, None])
def test_maps_that_are_damaged_or_of_another_size_are_made_again(size, item, tmp_path, calls):
    maps = tmp_path / "maps"
    example_part([item], str(maps), side=size or 16)
    if size is None:
        file = next(maps.iterdir())
        file.write_bytes(file.read_bytes()[:60])
    (example,) = example_part([item], str(maps), side=16)
    assert (len(calls), example.maps_Kss[0].mean()) == (2, 127.5)


def test_what_cannot_be_read_is_no_example(tmp_path, calls):
    (tmp_path / "b.png").write_bytes(b"no")
    items = [Item("b", "b", str(tmp_path / name)) for name in ("b.png", "none.png")]
    assert example_part(items, str(tmp_path), side=16) == [None, None]
