from itertools import islice

import pytest
from tests.saliency.stubs import save, square_image, use_brightness

from semppl.data.masks import read_mask
from semppl.saliency.items import items_of
from semppl.saliency.making import mask_part
from semppl.saliency.masking import Masking
from semppl.saliency.place import Place


class Stopped(Exception):
    pass


@pytest.fixture
def calls(monkeypatch):
    return use_brightness(monkeypatch)


class World:
    """A folder of images, and one for their masks."""

    def __init__(self, folder, calls):
        self.data, self.place, self.calls = folder / "data", Place(folder / "place"), calls
        self.place.path.mkdir()

    def run(self, most=None):
        """A pass, which is stopped after `most` parts."""

        def check():
            if most is not None:
                raise Stopped

        def make(parts):
            return map(mask_part, islice(parts, most))

        self.calls.clear()
        masking, self.steps = Masking(items_of(str(self.data), None), self.place, make, part=2), []
        masking.run_(self.steps.append, check)
        return masking

    @property
    def estimated(self):
        return len(self.calls)

    def shares(self):
        masks = sorted(self.place.masks.rglob("*.png"))
        return {path.relative_to(self.place.masks).as_posix(): read_mask(str(path)).mean() for path in masks}


@pytest.fixture
def world(tmp_path, calls):
    """Three images, of which the share of foreground is a quarter, a half and three quarters."""
    for name, share in (("a.png", 0.25), ("b.png", 0.5), ("c/d.png", 0.75)):
        save(tmp_path / "data" / name, square_image(8, 8, share=share))
    return World(tmp_path, calls)


EXPECTED = {"a.png.png": 0.25, "b.png.png": 0.5, "c/d.png.png": 0.75}


def test_each_image_gets_a_mask_once(world):
    first = world.run()
    assert (first.made, first.kept, world.estimated, world.steps) == (3, 0, 3, [2, 3])
    assert world.shares() == EXPECTED
    assert {name: row.foreground for name, row in first.index.rows.items()} == EXPECTED
    again = world.run()
    assert (again.made, again.kept, world.estimated) == (0, 3, 0)


def test_a_stopped_pass_goes_on(world):
    with pytest.raises(Stopped):
        world.run(most=1)
    assert len(world.shares()) == 2
    rest = world.run()
    assert (rest.made, rest.kept, world.shares()) == (1, 2, EXPECTED)


def test_renamed_and_copied_images_take_the_mask_of_their_content(world):
    world.run()
    (world.data / "c" / "d.png").rename(world.data / "e.png")
    save(world.data / "new" / "f.png", square_image(8, 8, share=0.25))
    found = world.run()
    assert (found.made, found.kept, found.moved, world.estimated) == (0, 2, 2, 0)
    assert world.steps == [2, 4]
    assert world.shares() == {**EXPECTED, "e.png.png": 0.75, "new/f.png.png": 0.25}
    assert world.run().kept == 4


def test_images_that_change_names_with_each_other_change_masks(world):
    world.run()
    a, b = world.data / "a.png", world.data / "b.png"
    a.rename(world.data / "x.png")
    b.rename(a)
    (world.data / "x.png").rename(b)
    found = world.run()
    assert (found.moved, world.estimated) == (2, 0)
    assert world.shares() == {**EXPECTED, "a.png.png": 0.5, "b.png.png": 0.25}
    assert world.run().kept == 3


def test_a_changed_image_gets_a_new_mask_and_its_old_one_is_not_lent(world):
    world.run()
    (world.data / "a.png").rename(world.data / "z.png")
    save(world.data / "a.png", square_image(8, 8, share=1))
    found = world.run()
    # the mask of the old content was replaced in the same pass, so it is made again
    assert (found.made, found.moved, world.estimated) == (2, 0, 2)
    assert world.shares() == {**EXPECTED, "a.png.png": 1, "z.png.png": 0.25}


def test_a_mask_that_was_deleted_is_made_again_and_those_of_gone_images_stay(world):
    world.run()
    (world.place.masks / "a.png.png").unlink()
    (world.data / "b.png").unlink()
    found = world.run()
    assert (found.made, found.kept, world.shares()) == (1, 1, EXPECTED)


def test_a_broken_image_is_named_and_the_rest_goes_on(world):
    (world.data / "b.png").write_bytes(b"")
    found = world.run()
    assert [(bad.path, bad.reason) for bad in found.bad] == [("b.png", "not a readable image (empty file)")]
    assert found.made == 2


def test_a_copy_whose_name_leaves_no_room_for_a_mask_is_named_and_the_rest_goes_on(world):
    world.run()
    long = "x" * 249 + ".png"
    for name in (long, "copy.png"):
        save(world.data / name, square_image(8, 8, share=0.25))
    found = world.run()
    assert [(bad.path, "too long" in bad.reason) for bad in found.bad] == [(long, True)]
    assert (found.made, found.kept, found.moved) == (0, 3, 1)
    assert world.shares() == {**EXPECTED, "copy.png.png": 0.25}
