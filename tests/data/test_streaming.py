from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.data.streaming import StreamingFeed
from semppl.views.geometry import cut_image
from semppl.views.recipe import View

CPU = torch.device("cpu")
VIEWS = [View(size=8, min_area=0.3), View(size=4, min_area=0.1, max_area=0.4)]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(30):
        # the red channel tells which image it is
        pixels = rng.integers(0, 256, (10 + i % 5, 12, 3), dtype=np.uint8)
        pixels[:, :, 0] = 8 * i
        Image.fromarray(pixels).save(tmp_path / f"{i:02d}.png")
    return ImageFiles(tmp_path, Paths(sorted(path.name for path in tmp_path.glob("*.png"))))


def feed_of(files, **changes):
    labels = torch.arange(len(files)) % 3 - 1
    options = {"batch_size": 20, "seed": 0, "device": CPU, "workers": 0, **changes}
    return StreamingFeed(files, labels, partial(cut_image, VIEWS), **options)


def test_a_batch_holds_the_crops_and_labels_of_its_images(files):
    feed = feed_of(files)
    batch = feed(0)
    assert [crop.shape for crop in batch.crops] == [(20, 3, 8, 8), (20, 3, 4, 4)]
    assert all(crop.dtype == torch.uint8 for crop in batch.crops)
    assert torch.equal(batch.labels_B, batch.index_B % 3 - 1)
    for crop in batch.crops:
        assert torch.equal(crop[:, 0].long(), (8 * batch.index_B)[:, None, None].expand_as(crop[:, 0]))
    seen = torch.cat([feed(step).index_B for step in range(3)])
    assert torch.equal(seen[:30].sort().values, torch.arange(30))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(files, workers):
    one, many = feed_of(files), feed_of(files, workers=workers)
    for step in range(3):
        mine, theirs = one(step), many(step)
        assert torch.equal(mine.index_B, theirs.index_B)
        assert all(torch.equal(a, b) for a, b in zip(mine.crops, theirs.crops, strict=True))
    many.close()


def test_a_step_gives_the_same_batch_whenever_it_is_asked_for(files):
    feed = feed_of(files)
    in_a_row = [feed(step) for step in range(4)]
    for step in (2, 0, 3, 1):
        again = feed_of(files)(step)
        assert all(torch.equal(a, b) for a, b in zip(again.crops, in_a_row[step].crops, strict=True))
        back = feed(step)
        assert torch.equal(back.crops[0], in_a_row[step].crops[0])


def test_seeds_steps_and_views_have_draws_of_their_own(files):
    batch, other = feed_of(files)(0), feed_of(files, seed=1)(0)
    assert not torch.equal(batch.index_B, other.index_B)
    # one image again and again: step and row decide
    twice = feed_of(files[torch.tensor([0, 0])], batch_size=2)
    first, second = twice(0), twice(1)
    assert not torch.equal(first.crops[0][0], first.crops[0][1])
    assert not torch.equal(first.crops[0][0], second.crops[0][0])


def test_a_share_of_labelled_images_can_be_asked_for(files):
    batch = feed_of(files, labelled_fraction=0.25)(0)
    assert int((batch.labels_B >= 0).sum()) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_goes_bad_is_grey_and_named_and_the_rest_goes_on(files, workers):
    (files.root / "07.png").write_bytes(b"damaged")
    feed = feed_of(files, workers=workers)
    batches = [feed(step) for step in range(3)]
    feed.close()
    grey = [(crop == 128).all() for batch in batches for crop in batch.crops[0][batch.index_B == 7]]
    assert grey
    assert all(grey)
    (problem,) = feed.unreadable
    assert "07.png: not a readable image" in problem


def test_the_oracle_travels_with_the_batch(files):
    truth = torch.arange(30) % 7
    batch = feed_of(files, oracle_M=truth)(0)
    assert torch.equal(batch.oracle_B, truth[batch.index_B])
    assert feed_of(files)(0).oracle_B is None


def test_waiting_is_measured(files):
    feed = feed_of(files)
    feed(0)
    assert feed.waited > 0
