from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import DataConfig, SaliencyConfig
from semppl.core.errors import UserError
from semppl.data.masks import write_mask
from semppl.data.request import Request
from semppl.data.resident import ResidentFeed
from semppl.data.source import load_dataset
from semppl.data.streaming import StreamingFeed
from semppl.resolve import resolved
from semppl.train.build import build_training

CPU = torch.device("cpu")


def training(root, feed, *, masks="none", probability=0.1, **data):
    dataset = load_dataset(Request(source=str(root), labels_per_class=2, feed=feed, masks=masks))
    saliency = SaliencyConfig(probability=probability)
    config = tiny_config(root, data=DataConfig(workers=0, **data), saliency=saliency, batch_size=6)
    return build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)


def test_pixels_in_memory_are_resident_and_files_are_streamed(class_folders):
    resident, streaming = (training(class_folders, feed) for feed in ("resident", "streaming"))
    assert isinstance(resident.feed, ResidentFeed)
    assert isinstance(streaming.feed, StreamingFeed)
    for step in range(6):
        one, other = resident.feed(step), streaming.feed(step)
        assert torch.equal(one.index_B, other.index_B), "both show the same images in the same order"
        assert torch.equal(one.labels_B, other.labels_B)
        assert [crop.shape for crop in one.crops] == [crop.shape for crop in other.crops]
    seen = torch.cat([streaming.feed(step).index_B for step in range(6)])
    assert torch.equal(seen.sort().values, torch.arange(36)), "an epoch shows every image once"


def test_a_step_runs_on_streamed_files(class_folders):
    run = training(class_folders, "streaming", labelled_fraction=0.5)
    batch = run.feed(0)
    assert int((batch.labels_B >= 0).sum()) == 3
    assert torch.isfinite(run.step(batch).terms.total)


@pytest.mark.parametrize("fraction", [None, 0.5])
def test_balanced_labels_are_the_same_images_in_both_feeds_and_in_the_queue(class_folders, fraction):
    data = {"labelled_fraction": fraction, "balance_labels": True}
    resident, streaming = (training(class_folders, feed, **data) for feed in ("resident", "streaming"))
    shown = []
    for step in range(6):
        one, other = resident.feed(step), streaming.feed(step)
        assert torch.equal(one.index_B, other.index_B)
        assert torch.equal(one.labels_B, other.labels_B)
        shown += one.labels_B[one.labels_B >= 0].tolist()
        assert torch.isfinite(resident.step(one).terms.total)
    assert len(shown) == (6 if fraction is None else 18), "6 of 36 images are labelled"
    assert all(sorted(shown[i : i + 3]) == [0, 1, 2] for i in range(0, len(shown), 3))
    assert resident.state.queue.labels_C[: len(shown)].tolist() == shown


def test_without_labels_there_is_nothing_to_balance(class_folders):
    dataset = load_dataset(Request(source=str(class_folders), labels_per_class=2))
    dataset = replace(dataset, labels_M=torch.full((36,), -1))
    config = tiny_config(class_folders, data=DataConfig(balance_labels=True), batch_size=6)
    with pytest.raises(UserError, match=r"--data\.balance-labels: there are no labels to balance"):
        build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)


def test_if_every_image_is_labelled_all_of_a_batch_is_balanced(class_folders):
    dataset = load_dataset(Request(source=str(class_folders), label_fraction=1.0))
    config = tiny_config(class_folders, data=DataConfig(balance_labels=True), batch_size=6)
    run = build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)
    assert sorted(run.feed(0).labels_B.tolist()) == [0, 0, 1, 1, 2, 2]


def test_a_share_needs_both_kinds_of_images(class_folders):
    dataset = load_dataset(Request(source=str(class_folders), label_fraction=1.0))
    config = tiny_config(class_folders, data=DataConfig(labelled_fraction=0.5), batch_size=6)
    with pytest.raises(UserError, match="one kind is missing"):
        build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)


def masks_beside(root, mask):
    """One and the same for every image."""
    for path in root.rglob("*.png"):
        write_mask(root.with_name("masks") / f"{path.relative_to(root).as_posix()}.png", mask)
    return str(root.with_name("masks"))


def trained(run):
    for step in range(4):
        run.step(run.feed(step))
    return run.state.state_dict()["online"]


def check_bits(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


HALF = np.arange(64).reshape(8, 8) < 32


@pytest.mark.parametrize("feed", ["resident", "streaming"])
def test_masks_that_remove_nothing_leave_the_weights_bit_for_bit(class_folders, feed):
    plain = trained(training(class_folders, feed))
    half = masks_beside(class_folders, HALF)
    check_bits(trained(training(class_folders, feed, masks=half, probability=0.0)), plain)
    masked = trained(training(class_folders, feed, masks=half, probability=1.0))
    assert any(not torch.equal(masked[name], plain[name]) for name in plain)
    for mask in (np.ones((8, 8), bool), np.zeros((8, 8), bool), np.arange(64).reshape(8, 8) < 12):
        masks = masks_beside(class_folders, mask)
        check_bits(trained(training(class_folders, feed, masks=masks, probability=1.0)), plain)


@pytest.mark.parametrize("feed", ["resident", "streaming"])
def test_masks_reach_the_large_views_of_both_feeds_and_no_others(class_folders, feed):
    plain = training(class_folders, feed).feed(1)
    masks = masks_beside(class_folders, HALF)
    masked = training(class_folders, feed, masks=masks, probability=1.0).feed(1)
    differ = [(a != b).flatten(1).any(1).tolist() for a, b in zip(plain.crops, masked.crops, strict=True)]
    assert sum(differ[0]) >= 4
    assert sum(differ[1]) >= 4
    assert not any(differ[2])


def test_with_probability_zero_no_feed_holds_masks(class_folders):
    masks = masks_beside(class_folders, HALF)
    seen = []
    run = training(class_folders, "resident", masks=masks, probability=0.0)
    run.feed._cut = lambda images, masks, rng, rows: seen.append(masks) or (images,)
    run.feed.make(0)
    assert seen == [None]
    assert training(class_folders, "streaming", masks=masks, probability=0.0).feed._read.masked is None
