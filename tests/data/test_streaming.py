import multiprocessing
import os
import signal
import time
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from semppl.core.errors import RunError
from semppl.core.share import Share
from semppl.data.images import ImageFiles
from semppl.data.masks import MaskFiles, write_mask
from semppl.data.order import Mixture
from semppl.data.paths import Paths
from semppl.data.streaming import Masked, StreamingFeed
from semppl.views.geometry import cut_image, cut_masked
from semppl.views.masking import Saliency
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


CUT = partial(cut_image, VIEWS)


def feed_of(files, cut=CUT, **changes):
    labels = torch.arange(len(files)) % 3 - 1
    options = {"batch_size": 20, "seed": 0, "device": CPU, "workers": 0, "patience": 60.0, **changes}
    return StreamingFeed(files, labels, cut, **options)


def check_same(mine, theirs):
    assert torch.equal(mine.index_B, theirs.index_B)
    assert torch.equal(mine.labels_B, theirs.labels_B)
    assert all(torch.equal(a, b) for a, b in zip(mine.crops, theirs.crops, strict=True))


def cut_but(end, number, image, rng):
    """Not image `number`: that is the process's end."""
    if image[0].unique().tolist() == [8 * number]:
        end()
    return cut_image(VIEWS, image, rng)


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)


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
        check_same(one(step), many(step))
    many.close()


@pytest.mark.parametrize(
    ("batch_size", "mixture", "workers"),
    [
        (20, Mixture(), 0),
        (7, Mixture(0.25), 0),
        (3, Mixture(), 0),
        (3, Mixture(0.5, balanced=True), 0),
        (35, Mixture(), 0),
        (37, Mixture(0.3, balanced=True), 2),
    ],
)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shares_are_the_rows_of_the_whole_and_each_knows_all_labels(
    files, batch_size, mixture, workers, world
):
    common = {"batch_size": batch_size, "mixture": mixture, "oracle_M": torch.arange(30) % 7}
    whole = feed_of(files, **common)
    feeds = [feed_of(files, **common, workers=workers, share=Share(rank, world)) for rank in range(world)]
    for step in (4, 5):
        batch, shares = whole(step), [feed(step) for feed in feeds]
        for view, crops in enumerate(batch.crops):
            assert torch.equal(torch.cat([share.crops[view] for share in shares]), crops)
        for rank, share in enumerate(shares):
            assert {len(crops) for crops in share.crops} == {len(Share(rank, world).rows(batch_size))}
            for name in ("labels_B", "index_B", "oracle_B"):
                assert torch.equal(getattr(share, name), getattr(batch, name))
    for feed in feeds:
        assert feed.batch_size == batch_size
        feed.close()


def test_a_share_reads_its_own_files_alone(files):
    feed = feed_of(files, share=Share(1, 2))
    batch = feed(0)
    for index in batch.index_B[:10].tolist():
        (files.root / f"{index:02d}.png").unlink()
    check_same(feed_of(files, share=Share(1, 2))(0), batch)


def test_a_share_without_rows_has_empty_crops(files):
    batch = feed_of(files, batch_size=1, workers=2, share=Share(0, 2))(0)
    assert [crops.shape for crops in batch.crops] == [(0, 3, 8, 8), (0, 3, 4, 4)]
    assert len(batch.labels_B) == 1


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
    batch = feed_of(files, mixture=Mixture(0.25))(0)
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


@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_deleted_during_training_is_grey_and_named(files, workers):
    feed, reference = feed_of(files, workers=workers), feed_of(files)
    whole = [reference(step) for step in range(8)]
    feed(0)
    (files.root / "07.png").unlink()
    for step in range(1, 8):
        batch, there_B = feed(step), whole[step].index_B == 7
        for crops, before in zip(batch.crops, whole[step].crops, strict=True):
            assert torch.equal(crops[~there_B], before[~there_B])
            # the first steps were read ahead
            assert step < 5 or (crops[there_B] == 128).all()
    feed.close()
    assert any((batch.index_B == 7).any() for batch in whole[5:])
    (problem,) = feed.unreadable
    assert problem == f"{files.root / '07.png'}: not a readable image (no such file)"
    assert not feed.incidents


def test_a_worker_killed_between_steps_or_within_one_changes_nothing(files):
    one, many = feed_of(files, batch_size=60), feed_of(files, batch_size=60, workers=3)
    for step in range(6):
        if step in {1, 3}:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        check_same(one(step), many(step))
    # each is noticed at the latest when its parts are needed, two steps later
    assert len(many.incidents) == 2
    assert all("a reader process died" in line and "signal 9): replaced" in line for line in many.incidents)
    many.close()


def test_a_death_is_no_concern_of_the_step_in_between(files):
    feed = feed_of(files, workers=2)
    feed(0)
    # a reader's death must not raise here, whatever handler another DataLoader has left
    list(torch.utils.data.DataLoader([1, 2], num_workers=1))
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    check_same(feed(1), feed_of(files)(1))
    feed.close()


# an image of the first step, and one of a later step that is read ahead
@pytest.mark.parametrize("place", [3, 25])
def test_an_image_that_kills_its_reader_again_and_again_ends_the_run_by_name(files, place):
    order = [int(index) for step in range(2) for index in feed_of(files)(step).index_B]
    bad = order[place]
    feed = feed_of(files, partial(cut_but, kill_myself, bad), workers=2)
    with pytest.raises(
        RunError, match=rf"^two reader processes died while reading .*{bad:02d}\.png"
    ) as caught:
        [feed(step) for step in range(2)]
    assert "\n" not in str(caught.value)
    assert len(feed.incidents) == 1
    assert f"{bad:02d}.png" in feed.incidents[0]
    feed.close()
    assert not multiprocessing.active_children()


def test_a_worker_that_hangs_ends_the_run_with_the_file_it_hangs_at(files):
    bad = int(feed_of(files)(1).index_B[2])
    feed = feed_of(files, partial(cut_but, partial(time.sleep, 600), bad), workers=2, patience=1.0)
    with pytest.raises(RunError, match=rf"^no image has come for 1 s; being read: \S*{bad:02d}\.png: "):
        [feed(step) for step in range(2)]
    feed.close()


def test_a_step_that_failed_can_be_asked_for_again(files):
    bad = int(feed_of(files)(1).index_B[2])
    feed = feed_of(files, partial(cut_but, kill_myself, bad), workers=1)
    with pytest.raises(RunError):
        feed(1)
    check_same(feed(0), feed_of(files)(0))
    feed.close()


def test_the_oracle_travels_with_the_batch(files):
    truth = torch.arange(30) % 7
    batch = feed_of(files, oracle_M=truth)(0)
    assert torch.equal(batch.oracle_B, truth[batch.index_B])
    assert feed_of(files)(0).oracle_B is None


def test_waiting_is_measured(files):
    feed = feed_of(files)
    feed(0)
    assert feed.waited > 0


def masked_of(files, folder, probability=1.0, without=()):
    """The left half of every image is foreground."""
    names = [("" if i in without else f"{i}.png") for i in range(len(files))]
    for i, name in enumerate(names):
        mask = np.zeros((10 + i % 5, 12), bool)
        mask[:, :6] = True
        if name:
            write_mask(folder / name, mask)
    cut = partial(cut_masked, VIEWS, 1, Saliency(probability=probability))
    return Masked(MaskFiles(folder, Paths(names)), cut)


@pytest.mark.parametrize("workers", [0, 2])
def test_masks_change_large_views_of_the_images_that_have_one(files, tmp_path, workers):
    without = range(0, 30, 3)
    plain = feed_of(files)
    feed = feed_of(files, workers=workers, masked=masked_of(files, tmp_path / "m", without=without))
    changed = torch.zeros(30, dtype=torch.bool)
    for step in range(3):
        one, other = plain(step), feed(step)
        assert torch.equal(one.index_B, other.index_B)
        assert torch.equal(one.crops[1], other.crops[1]), "small views never"
        changed[one.index_B] |= (one.crops[0] != other.crops[0]).flatten(1).any(1)
    feed.close()
    assert not changed[list(without)].any()
    assert changed.sum() >= 15
    assert not feed.unreadable


def test_probability_zero_reads_no_mask_and_changes_nothing(files, tmp_path):
    plain, feed = feed_of(files), feed_of(files, masked=masked_of(files, tmp_path / "m", 0.0))
    for mask in (tmp_path / "m").iterdir():
        mask.unlink()
    check_same(plain(0), feed(0))
    assert not feed.unreadable


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mask_that_has_gone_bad_is_named_and_its_image_stays(files, tmp_path, workers):
    masked = masked_of(files, tmp_path / "m")
    (tmp_path / "m" / "4.png").write_bytes(b"junk")
    write_mask(tmp_path / "m" / "5.png", np.ones((3, 3), bool))
    (tmp_path / "m" / "6.png").unlink()
    (files.root / "07.png").write_bytes(b"junk")
    plain, feed = feed_of(files), feed_of(files, workers=workers, masked=masked)
    for step in range(3):
        one, other = plain(step), feed(step)
        stays = torch.isin(one.index_B, torch.tensor([4, 5, 6, 7]))
        assert torch.equal(one.crops[0][stays], other.crops[0][stays])
    feed.close()
    image, *masks = sorted(feed.unreadable)
    assert image.startswith(f"{files.root / '07.png'}: not a readable image")
    assert [line.endswith(": treated as absent") for line in masks] == [True] * 3
    assert masks[0].startswith(f"mask {tmp_path / 'm' / '4.png'}: not a readable image")
    assert "5.png: 3×3, the image is 12×10" in masks[1]


@pytest.mark.parametrize("world", [2, 3])
def test_masked_shares_are_the_rows_of_the_whole(files, tmp_path, world):
    masked = masked_of(files, tmp_path / "m", 0.5)
    whole = feed_of(files, masked=masked)(4)
    shares = [feed_of(files, masked=masked, share=Share(rank, world))(4) for rank in range(world)]
    for view, crops in enumerate(whole.crops):
        assert torch.equal(torch.cat([share.crops[view] for share in shares]), crops)
