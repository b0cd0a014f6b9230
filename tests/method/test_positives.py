"""Slot c of view v holds the embedding (label, v, c), so that a draw tells where it came from."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch.profiler import ProfilerActivity, profile

from semppl.method.positives import Positives, sample_positives, weight_of
from semppl.method.queue import LabelledQueue

NUM_CLASSES = 6
MIXED = [1, 0, 1, 5, 1, 0, 1, 3, 1]
"""Class 1 holds the slots 0, 2, 4, 6 and 8; the classes 2 and 4 hold none."""


def coded_queue(labels, views=2, *, capacity=None, keep_predictions=False):
    rows = [[[label, v, c] for c, label in enumerate(labels)] for v in range(views)]
    rows_VMD = torch.tensor(rows, dtype=torch.float).view(views, -1, 3)
    queue = LabelledQueue(
        views,
        capacity or len(labels),
        3,
        NUM_CLASSES,
        initial_labels="none",
        keep_predictions=keep_predictions,
    )
    queue.push_(
        rows_VMD, torch.tensor(labels, dtype=torch.long), rows_VMD + 1000 if keep_predictions else None
    )
    return queue


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def slots_of(positives):
    return positives.embeddings_AVPBD[..., 2].long()


def test_draws_are_uniform_among_the_entries_of_the_label():
    labels_B = torch.tensor([1, 0] * 200)
    slots = slots_of(sample_positives(labels_B, coded_queue(MIXED), anchors=3, count=4, generator=seeded()))
    for v in range(2):
        ones = slots[:, v, :, 0::2].flatten().bincount(minlength=9)
        zeros = slots[:, v, :, 1::2].flatten().bincount(minlength=9)
        assert ones[[1, 3, 5, 7]].sum() == 0
        assert zeros[[0, 2, 3, 4, 6, 7, 8]].sum() == 0
        assert chisquare(ones[[0, 2, 4, 6, 8]].numpy()).pvalue > 1e-3
        assert chisquare(zeros[[1, 5]].numpy()).pvalue > 1e-3


@pytest.mark.parametrize("axis", [0, 1, 2, 3], ids=["anchors", "targets", "positives", "images"])
def test_draws_are_independent_along_every_axis(axis):
    """All 25 pairs of slots of two neighbours along the axis are equally frequent."""
    labels_B = torch.ones(400, dtype=torch.long)
    slots = slots_of(
        sample_positives(labels_B, coded_queue(MIXED), anchors=2, count=2, generator=seeded(axis))
    )
    rank = slots.div(2, rounding_mode="floor").movedim(axis, 0)
    pairs = 5 * rank[0::2] + rank[1::2]
    assert chisquare(pairs.flatten().bincount(minlength=25).numpy()).pvalue > 1e-3


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(-1, NUM_CLASSES - 1), min_size=1, max_size=12),
    st.lists(st.integers(-1, NUM_CLASSES - 1), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_draw_has_the_label_of_its_image_and_comes_from_the_queue_of_its_target_view(
    queued, asked, mirrored
):
    queue = coded_queue(queued, views=3)
    positives = sample_positives(torch.tensor(asked), queue, 4, 2, seeded(), mirrored=mirrored)
    for m, label in enumerate(asked):
        found = label != -1 and label in queued
        assert bool(positives.found_B[m]) == found
        for j in range(3):
            drawn = positives.embeddings_AVPBD[:, j, :, m]
            if found:
                assert (drawn[..., 0] == label).all()
                assert (drawn[..., 1] == j).all()
            else:
                assert (drawn == 0).all()


def test_a_class_absent_from_the_queue_is_not_found_and_leaves_zeros():
    positives = sample_positives(torch.tensor([1, 2, 5, 4]), coded_queue(MIXED), 2, 3, seeded())
    assert positives.found_B.tolist() == [True, False, True, False]
    assert (positives.embeddings_AVPBD[..., [1, 3], :] == 0).all()
    assert (positives.embeddings_AVPBD[..., 0, 0] == 1).all()
    assert (slots_of(positives)[..., 2] == 3).all()


def test_none_labelled_finds_nothing_even_when_empty_slots_share_the_label():
    queue = coded_queue(MIXED, capacity=20)
    positives = sample_positives(torch.tensor([-1, -1]), queue, 2, 3, seeded())
    assert positives.found_B.tolist() == [False, False]
    assert (positives.embeddings_AVPBD == 0).all()


def test_all_labelled_with_queued_labels_are_all_found():
    positives = sample_positives(torch.tensor([0, 1, 3, 5]), coded_queue(MIXED, capacity=20), 2, 3, seeded())
    assert positives.found_B.all()
    assert (positives.embeddings_AVPBD[..., 0] == torch.tensor([0, 1, 3, 5])).all()


def test_an_empty_queue_finds_nothing_and_gives_zeros():
    queue = LabelledQueue(2, 4, 3, NUM_CLASSES, initial_labels="none", keep_predictions=True)
    positives = sample_positives(torch.tensor([0, 5, -1]), queue, 3, 2, seeded())
    assert positives.found_B.tolist() == [False] * 3
    assert positives.embeddings_AVPBD.shape == (3, 2, 2, 3, 3)
    assert (positives.embeddings_AVPBD == 0).all()
    assert (positives.predictions_AVPBD == 0).all()


def test_empty_slots_are_never_drawn():
    queue = coded_queue([0, 0, 0], views=1, capacity=50)
    slots = slots_of(sample_positives(torch.zeros(30, dtype=torch.long), queue, 2, 5, seeded()))
    assert set(slots.flatten().tolist()) == {0, 1, 2}
    assert sample_positives(torch.tensor([0]), queue, 1, 9, seeded()).found_B.all()


def test_a_batch_of_one_draws_from_a_queue_of_one():
    positives = sample_positives(torch.tensor([5]), coded_queue([5]), 2, 3, seeded())
    assert positives.found_B.tolist() == [True]
    expected = torch.tensor([[5.0, 0.0, 0.0], [5.0, 1.0, 0.0]])[None, :, None, None]
    assert torch.equal(positives.embeddings_AVPBD, expected.expand(2, 2, 3, 1, 3))


def test_after_a_push_larger_than_the_capacity_only_the_newest_are_drawn():
    queue = coded_queue([0, 0, 0, 0, 0, 0, 1], views=1, capacity=3)
    slots = slots_of(sample_positives(torch.zeros(40, dtype=torch.long), queue, 1, 2, seeded()))
    assert set(slots.flatten().tolist()) == {4, 5}


def test_mirrored_draws_share_slots_between_a_pair_of_large_views_and_its_reverse():
    labels_B = torch.ones(50, dtype=torch.long)
    queue = coded_queue(MIXED, views=3)
    slots = slots_of(sample_positives(labels_B, queue, 5, 2, seeded(), mirrored=True))
    assert torch.equal(slots[:3], slots[:3].transpose(0, 1))
    free = slots_of(sample_positives(labels_B, queue, 5, 2, seeded()))
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        assert not torch.equal(free[i, j], free[j, i])
    different = [
        slots[0, 0],
        slots[0, 1],
        slots[0, 2],
        slots[1, 1],
        slots[1, 2],
        slots[2, 2],
        *slots[3],
        *slots[4],
    ]
    for n, one in enumerate(different):
        assert not any(torch.equal(one, other) for other in different[:n])


def test_mirrored_draws_are_uniform_on_both_sides_of_the_diagonal():
    labels_B = torch.ones(500, dtype=torch.long)
    slots = slots_of(sample_positives(labels_B, coded_queue(MIXED), 2, 3, seeded(), mirrored=True))
    for i in range(2):
        for j in range(2):
            counts = slots[i, j].flatten().bincount(minlength=9)[[0, 2, 4, 6, 8]]
            assert chisquare(counts.numpy()).pvalue > 1e-3


def test_draws_are_a_function_of_the_generator():
    labels_B, queue = torch.ones(20, dtype=torch.long), coded_queue(MIXED)
    generator = seeded(1)
    first = slots_of(sample_positives(labels_B, queue, 2, 2, generator))
    second = slots_of(sample_positives(labels_B, queue, 2, 2, generator))
    assert torch.equal(first, slots_of(sample_positives(labels_B, queue, 2, 2, seeded(1))))
    assert not torch.equal(first, second)
    assert not torch.equal(first, slots_of(sample_positives(labels_B, queue, 2, 2, seeded(2))))


def test_stored_predictions_come_from_the_slots_of_the_embeddings():
    queue = coded_queue(MIXED, keep_predictions=True)
    positives = sample_positives(torch.tensor([1, 0, 2, 1]), queue, 3, 4, seeded())
    found = positives.found_B
    assert found.tolist() == [True, True, False, True]
    drawn = positives.embeddings_AVPBD[..., found, :]
    assert torch.equal(positives.predictions_AVPBD[..., found, :], drawn + 1000)
    assert (positives.predictions_AVPBD[..., ~found, :] == 0).all()
    assert sample_positives(torch.tensor([1]), coded_queue(MIXED), 3, 4, seeded()).predictions_AVPBD is None


def test_draws_are_copies_that_later_pushes_do_not_change():
    queue = coded_queue([2, 2], views=1)
    positives = sample_positives(torch.tensor([2, 3]), queue, 1, 2, seeded())
    kept, content = positives.embeddings_AVPBD.clone(), queue.state_dict()
    positives.embeddings_AVPBD.add_(1)
    assert torch.equal(queue.embeddings_VCD, content["embeddings_VCD"])
    queue.push_(torch.full((1, 2, 3), 7.0), torch.tensor([2, 2]))
    assert torch.equal(positives.embeddings_AVPBD, kept + 1)


def test_no_allocation_is_as_large_as_batch_times_capacity():
    num_images, capacity = 2000, 200_000
    queue = LabelledQueue(1, capacity, 2, 10)
    labels_B = torch.arange(num_images) % 10
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        sample_positives(labels_B, queue, anchors=1, count=1, generator=seeded())
    largest = max(event.self_cpu_memory_usage for event in profiled.events())
    assert capacity <= largest < num_images * capacity // 10


def test_a_label_that_no_class_has_is_not_found():
    queue = LabelledQueue(1, 8, 2, 2)
    positives = sample_positives(torch.tensor([-2, 2, 7, 0]), queue, 1, 1)
    assert positives.found_B.tolist() == [False, False, False, True]


def test_the_weight_is_the_trust_where_something_was_found():
    found_B = torch.tensor([True, False, True])
    plain = Positives(torch.zeros(1, 1, 1, 3, 2), found_B)
    assert weight_of(plain) is found_B
    weighed = plain._replace(trust_B=torch.tensor([0.5, 0.5, 1.0]))
    assert weight_of(weighed).tolist() == [0.5, 0.0, 1.0]
