from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from semppl.core.errors import UserError
from semppl.data.streaming import StreamingFeed
from semppl.views.geometry import cut_image
from semppl.views.recipe import View

CPU = torch.device("cpu")
VIEWS = [View(size=8, min_area=0.3), View(size=4, min_area=0.1, max_area=0.4)]


@pytest.fixture
def paths(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(30):
        # the red channel tells which image it is
        pixels = rng.integers(0, 256, (10 + i % 5, 12, 3), dtype=np.uint8)
        pixels[:, :, 0] = 8 * i
        Image.fromarray(pixels).save(tmp_path / f"{i:02d}.png")
    return sorted(str(path) for path in tmp_path.glob("*.png"))


def feed_of(paths, **changes):
    labels = torch.arange(len(paths)) % 3 - 1
    options = {"batch_size": 20, "seed": 0, "device": CPU, "workers": 0, **changes}
    return StreamingFeed(paths, labels, partial(cut_image, VIEWS), **options)


def test_a_batch_holds_the_crops_and_labels_of_its_images(paths):
    feed = feed_of(paths)
    batch = feed(0)
    assert [crop.shape for crop in batch.crops] == [(20, 3, 8, 8), (20, 3, 4, 4)]
    assert all(crop.dtype == torch.uint8 for crop in batch.crops)
    assert torch.equal(batch.labels_B, batch.index_B % 3 - 1)
    for crop in batch.crops:
        assert torch.equal(crop[:, 0].long(), (8 * batch.index_B)[:, None, None].expand_as(crop[:, 0]))
    seen = torch.cat([feed(step).index_B for step in range(3)])
    assert torch.equal(seen[:30].sort().values, torch.arange(30))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_nothing(paths, workers):
    one, many = feed_of(paths), feed_of(paths, workers=workers)
    for step in range(3):
        mine, theirs = one(step), many(step)
        assert torch.equal(mine.index_B, theirs.index_B)
        assert all(torch.equal(a, b) for a, b in zip(mine.crops, theirs.crops, strict=True))
    many.close()


def test_a_step_gives_the_same_batch_whenever_it_is_asked_for(paths):
    feed = feed_of(paths)
    in_a_row = [feed(step) for step in range(4)]
    for step in (2, 0, 3, 1):
        again = feed_of(paths)(step)
        assert all(torch.equal(a, b) for a, b in zip(again.crops, in_a_row[step].crops, strict=True))
        back = feed(step)
        assert torch.equal(back.crops[0], in_a_row[step].crops[0])


def test_seeds_steps_and_views_have_draws_of_their_own(paths):
    batch, other = feed_of(paths)(0), feed_of(paths, seed=1)(0)
    assert not torch.equal(batch.index_B, other.index_B)
    # one image again and again: step and row decide
    twice = feed_of(paths[:1] * 2, batch_size=2)
    first, second = twice(0), twice(1)
    assert not torch.equal(first.crops[0][0], first.crops[0][1])
    assert not torch.equal(first.crops[0][0], second.crops[0][0])


def test_a_share_of_labelled_images_can_be_asked_for(paths):
    batch = feed_of(paths, labelled_fraction=0.25)(0)
    assert int((batch.labels_B >= 0).sum()) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_file_stops_with_its_name_in_one_line(paths, workers):
    with open(paths[7], "wb") as file:  # noqa: PTH123
        file.write(b"damaged")
    feed = feed_of(paths, workers=workers)
    with pytest.raises(UserError, match=r"07\.png: not a readable image$"):
        [feed(step) for step in range(3)]
    feed.close()


def test_waiting_is_measured(paths):
    feed = feed_of(paths)
    feed(0)
    assert feed.waited > 0
