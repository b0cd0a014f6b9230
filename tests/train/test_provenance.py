"""An image's number is written into its embedding, so that a slot tells what it holds."""

from itertools import product

import pytest
import torch

from semppl.core.labels import UNLABELLED
from semppl.data.order import NATURAL, Mixture, Order
from semppl.method.queue import LabelledQueue
from semppl.train.provenance import NO_IMAGE, slot_images

NUM_IMAGES, CLASSES, SEED = 50, 4, 3


def labels_of(num_labelled, classes=CLASSES):
    labels = torch.full((NUM_IMAGES,), UNLABELLED)
    labels[torch.randperm(NUM_IMAGES)[:num_labelled]] = torch.arange(num_labelled) % classes
    return labels


def pushed(labels, steps, capacity, batch_size, mixture=NATURAL, skipped=(), initial="none"):
    """A queue as training leaves it; steps that are left out push nothing."""
    queue = LabelledQueue(2, capacity, 1, CLASSES, initial_labels=initial)
    order = Order(labels, batch_size=batch_size, seed=SEED, mixture=mixture)
    for step in range(steps):
        if step not in skipped:
            index = order(step)
            queue.push_(index.float()[None, :, None].expand(2, -1, -1), labels[index])
    return queue


def found(queue, labels, steps, batch_size, mixture=NATURAL):
    return slot_images(queue, steps, labels, batch_size=batch_size, seed=SEED, mixture=mixture)


@pytest.mark.parametrize("mixture", [NATURAL, Mixture(0.25), Mixture(0.9)])
@pytest.mark.parametrize("num_labelled", [1, 12, 49])
def test_every_slot_names_the_image_that_was_pushed(num_labelled, mixture):
    check_slots(labels_of(num_labelled), mixture, (0, 1, 2, 9, 30), (1, 5, 23, 200), (7, 16, 50))


@pytest.mark.parametrize("mixture", [Mixture(0.25, balanced=True), Mixture(balanced=True)])
@pytest.mark.parametrize("num_labelled", [1, 12, 49])
def test_so_it_does_with_balanced_labels(num_labelled, mixture):
    labels = labels_of(num_labelled)
    labels[labels == 2] = 1  # a class without labels, and one with more than the others
    check_slots(labels, mixture, (0, 1, 20), (1, 23, 200), (7, 16))


def check_slots(labels, mixture, *sizes):
    for steps, capacity, batch_size in product(*sizes):
        queue = pushed(labels, steps, capacity, batch_size, mixture)
        expected = queue.embeddings_VCD[0, :, 0].long().where(queue.labels_C != UNLABELLED, NO_IMAGE)
        assert torch.equal(found(queue, labels, steps, batch_size, mixture), expected)


def test_the_cases_above_wrap_overflow_and_leave_slots_empty():
    labels = labels_of(49)
    order = Order(labels, batch_size=50, seed=SEED)
    per_step = [int((labels[order(s)] >= 0).sum()) for s in range(9)]
    assert min(per_step) > 23, "a push larger than the capacity"
    assert sum(per_step) > 200 > per_step[0], "wrapped, and not yet full"


def test_random_entries_of_the_start_are_no_images():
    labels = labels_of(12)
    queue = pushed(labels, 3, 40, 16, initial="random")
    images = found(queue, labels, 3, 16)
    filled = int(queue.state_dict()["cursor"])
    assert 0 < filled < 40
    assert images[:filled].tolist() == queue.embeddings_VCD[0, :filled, 0].long().tolist()
    assert (images[filled:] == NO_IMAGE).all()


@pytest.mark.parametrize("skipped", [{20}, {38, 39}, {0}, {5, 11, 12, 33}])
@pytest.mark.parametrize("mixture", [NATURAL, Mixture(0.5), Mixture(0.5, balanced=True)])
def test_steps_that_were_left_out_are_found_by_their_labels(skipped, mixture):
    labels = labels_of(40)
    queue = pushed(labels, 40, 400, 16, mixture, skipped)
    images = found(queue, labels, 40, 16, mixture)
    assert (images >= 0).sum() == len(queue)
    assert torch.equal(images[images >= 0], queue.embeddings_VCD[0, images >= 0, 0].long())


def test_a_queue_of_another_history_names_no_image_with_another_label():
    labels = labels_of(40)
    queue = pushed(labels, 40, 100, 16)
    images = slot_images(queue, 40, labels, batch_size=16, seed=SEED + 1)
    assert (images == NO_IMAGE).all()
    few = labels_of(3, classes=2)
    images = slot_images(pushed(few, 40, 10, 16), 40, few, batch_size=16, seed=SEED + 1)
    assert torch.equal(few[images[images >= 0]], pushed(few, 40, 10, 16).labels_C[images >= 0])


def test_a_full_queue_of_balanced_labels_has_every_class_equally_often():
    labels = labels_of(24, classes=3)
    labels[(labels == 2).nonzero().flatten()[2:]] = 0  # 14, 8 and 2 labels
    assert labels[labels >= 0].bincount().tolist() == [14, 8, 2]
    for steps in (5, 6, 7):
        counts = pushed(labels, steps, 30, 16, Mixture(0.5, balanced=True)).labels_C.bincount(minlength=3)
        assert counts.sum() == 30
        assert all(9 <= count <= 11 for count in counts.tolist())


def test_without_labels_nothing_was_pushed():
    labels = torch.full((NUM_IMAGES,), UNLABELLED)
    assert (found(pushed(labels, 5, 8, 16), labels, 5, 16) == NO_IMAGE).all()
