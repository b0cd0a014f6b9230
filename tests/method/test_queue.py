"""Image n is pushed with the embedding (n, view), so that a slot tells what it holds."""

import random
from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from semppl.method.queue import LabelledQueue

NUM_CLASSES = 5


def embeddings_of(images, views):
    return torch.tensor([[[n, v] for n in images] for v in range(views)], dtype=torch.float).view(
        views, -1, 2
    )


def content(queue):
    """(label, embedding in each view) of every slot that holds something, in slot order."""
    slots = []
    for c, label in enumerate(queue.labels_C.tolist()):
        if label != -1:
            slots.append((label, tuple(tuple(view[c].tolist()) for view in queue.embeddings_VCD)))
    return slots


def same_state(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("initial_labels", ["none", "random"])
@pytest.mark.parametrize("capacity", [1, 3, 7])
def test_a_queue_is_a_deque_of_the_labelled_rows_with_all_their_views(capacity, initial_labels):
    views, pushed, rng = 3, 0, random.Random(capacity)
    queue = LabelledQueue(views, capacity, 2, NUM_CLASSES, initial_labels=initial_labels)
    model = deque(content(queue), maxlen=capacity)
    for _ in range(40):
        images = range(pushed, pushed + rng.randint(0, 9))
        labels = [rng.randint(-1, NUM_CLASSES - 1) for _ in images]
        pushed += len(images)
        queue.push_(embeddings_of(images, views), torch.tensor(labels, dtype=torch.long))
        for n, label in zip(images, labels, strict=True):
            if label != -1:
                model.append((label, tuple((float(n), float(v)) for v in range(views))))
        assert sorted(content(queue)) == sorted(model)
        assert len(queue) == len(model)


def test_a_push_that_wraps_overwrites_the_oldest_slots_first():
    queue = LabelledQueue(1, 3, 2, NUM_CLASSES, initial_labels="none")
    queue.push_(embeddings_of([10, 11], 1), torch.tensor([0, 1]))
    queue.push_(embeddings_of([12, 13], 1), torch.tensor([2, 3]))
    assert queue.labels_C.tolist() == [3, 1, 2]
    assert queue.embeddings_VCD[0, :, 0].tolist() == [13, 11, 12]


def test_a_push_larger_than_the_capacity_keeps_the_newest():
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES, initial_labels="none")
    queue.push_(embeddings_of(range(8), 2), torch.tensor([0, 1, -1, 2, 3, -1, 4, -1]))
    expected = {(n, label) for n, label in [(3, 2), (4, 3), (6, 4)]}
    for view in queue.embeddings_VCD:
        assert set(zip(view[:, 0].tolist(), queue.labels_C.tolist(), strict=True)) == expected


def test_all_rows_of_a_fully_labelled_push_are_kept_in_order():
    queue = LabelledQueue(1, 4, 2, NUM_CLASSES, initial_labels="none")
    queue.push_(embeddings_of(range(4), 1), torch.tensor([3, 3, 0, 1]))
    assert content(queue) == [(3, ((0, 0),)), (3, ((1, 0),)), (0, ((2, 0),)), (1, ((3, 0),))]


@pytest.mark.parametrize("labels", [[], [-1], [-1, -1, -1, -1, -1]])
def test_a_push_without_a_labelled_row_changes_nothing(labels):
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES)
    queue.push_(embeddings_of([7], 2), torch.tensor([4]))
    before = queue.state_dict()
    queue.push_(embeddings_of(range(len(labels)), 2), torch.tensor(labels, dtype=torch.long))
    assert same_state(queue.state_dict(), before)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-1, NUM_CLASSES - 1), max_size=12), st.integers(0, 12), st.integers(1, 5))
def test_one_push_equals_the_same_rows_in_two_pushes(labels, cut, capacity):
    whole, parts = (LabelledQueue(2, capacity, 2, NUM_CLASSES) for _ in range(2))
    rows, labels_M = embeddings_of(range(len(labels)), 2), torch.tensor(labels, dtype=torch.long)
    whole.push_(rows, labels_M)
    parts.push_(rows[:, :cut], labels_M[:cut])
    parts.push_(rows[:, cut:], labels_M[cut:])
    assert same_state(whole.state_dict(), parts.state_dict())


def test_random_initial_content_has_unit_norms_along_the_embedding():
    queue = LabelledQueue(3, 50, 7, NUM_CLASSES)
    torch.testing.assert_close(queue.embeddings_VCD.norm(dim=-1), torch.ones(3, 50))
    assert not torch.equal(queue.embeddings_VCD[0], queue.embeddings_VCD[1])


def test_random_initial_labels_are_uniform_over_the_classes():
    labels = LabelledQueue(1, 3000, 2, 4, seed=1).labels_C
    assert set(labels.tolist()) == {0, 1, 2, 3}
    assert chisquare(labels.bincount(minlength=4).numpy()).pvalue > 1e-3


def test_random_initial_content_depends_on_the_seed_and_on_nothing_else():
    torch.manual_seed(0)
    first = LabelledQueue(2, 20, 3, NUM_CLASSES, seed=5).state_dict()
    torch.manual_seed(1)
    again = LabelledQueue(2, 20, 3, NUM_CLASSES, seed=5).state_dict()
    other = LabelledQueue(2, 20, 3, NUM_CLASSES, seed=6).state_dict()
    assert same_state(first, again)
    assert not torch.equal(first["embeddings_VCD"], other["embeddings_VCD"])
    assert not torch.equal(first["labels_C"], other["labels_C"])


def test_an_empty_queue_holds_nothing_until_a_push_fills_a_slot():
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES, initial_labels="none")
    assert len(queue) == 0
    assert queue.labels_C.tolist() == [-1, -1, -1]
    queue.push_(embeddings_of([9], 2), torch.tensor([2]))
    assert len(queue) == 1
    assert content(queue) == [(2, ((9, 0), (9, 1)))]


def test_a_restored_queue_goes_on_identically():
    original = LabelledQueue(2, 3, 2, NUM_CLASSES, seed=1)
    original.push_(embeddings_of(range(4), 2), torch.tensor([0, -1, 1, 2]))
    original.push_(embeddings_of([4], 2), torch.tensor([3]))
    restored = LabelledQueue(2, 3, 2, NUM_CLASSES, seed=2)
    restored.load_state_dict(original.state_dict())
    assert same_state(restored.state_dict(), original.state_dict())
    for queue in (original, restored):
        queue.push_(embeddings_of([5, 6], 2), torch.tensor([4, 0]))
    assert same_state(restored.state_dict(), original.state_dict())
    assert sorted(label for label, _ in content(restored)) == [0, 3, 4]


def test_a_state_is_a_snapshot_that_later_pushes_do_not_change():
    queue = LabelledQueue(1, 2, 2, NUM_CLASSES, initial_labels="none")
    queue.push_(embeddings_of([1], 1), torch.tensor([1]))
    state = queue.state_dict()
    restored = LabelledQueue(1, 2, 2, NUM_CLASSES)
    restored.load_state_dict(state)
    for pushed in (queue, restored):
        pushed.push_(embeddings_of([2, 3], 1), torch.tensor([2, 3]))
    assert state["labels_C"].tolist() == [1, -1]
    assert state["embeddings_VCD"][0].tolist() == [[1, 0], [0, 0]]
    assert int(state["cursor"]) == 1


def test_kept_predictions_lie_in_the_slots_of_their_images():
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES, keep_predictions=True)
    rows = embeddings_of(range(1, 6), 2)
    queue.push_(rows, torch.tensor([0, 1, -1, 2, 3]), -rows)
    assert torch.equal(queue.predictions_VCD, -queue.embeddings_VCD)
    restored = LabelledQueue(2, 3, 2, NUM_CLASSES, keep_predictions=True, seed=9)
    restored.load_state_dict(queue.state_dict())
    assert torch.equal(restored.predictions_VCD, queue.predictions_VCD)


def test_a_queue_that_keeps_predictions_refuses_a_push_without_them():
    queue = LabelledQueue(1, 3, 2, NUM_CLASSES, keep_predictions=True)
    with pytest.raises(ValueError, match="predictions"):
        queue.push_(embeddings_of([0], 1), torch.tensor([0]))
    assert LabelledQueue(1, 3, 2, NUM_CLASSES).predictions_VCD is None


@pytest.mark.parametrize("shape", [(1, 4, 2), (3, 4, 2), (2, 3, 2), (2, 5, 2), (2, 4, 3), (2, 4, 1), (4, 2)])
def test_a_push_of_another_shape_is_refused_and_changes_nothing(shape):
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES)
    before = queue.state_dict()
    with pytest.raises(ValueError, match="shape"):
        queue.push_(torch.ones(shape), torch.tensor([0, 1, 2, 3]))
    assert same_state(queue.state_dict(), before)


@pytest.mark.parametrize("label", [-2, NUM_CLASSES, 1000])
def test_a_label_out_of_range_is_refused_and_changes_nothing(label):
    queue = LabelledQueue(2, 3, 2, NUM_CLASSES)
    before = queue.state_dict()
    with pytest.raises(ValueError, match=str(label)):
        queue.push_(embeddings_of(range(3), 2), torch.tensor([0, label, 1]))
    assert same_state(queue.state_dict(), before)


@pytest.mark.parametrize("name", ["views", "capacity", "dim", "classes"])
def test_a_queue_without_views_slots_dims_or_classes_is_refused(name):
    with pytest.raises(ValueError, match=name):
        LabelledQueue(**{"views": 1, "capacity": 1, "dim": 1, "classes": 1, name: 0})


def test_unknown_initial_labels_are_refused():
    with pytest.raises(ValueError, match="zeros"):
        LabelledQueue(1, 1, 1, 1, initial_labels="zeros")


@pytest.mark.parametrize("other", [(1, 3, 2), (2, 4, 2), (2, 3, 1)])
def test_the_state_of_another_shape_is_refused(other):
    with pytest.raises(ValueError, match="shape"):
        LabelledQueue(2, 3, 2, NUM_CLASSES).load_state_dict(LabelledQueue(*other, NUM_CLASSES).state_dict())


@pytest.mark.parametrize("keeps", [True, False])
def test_the_state_of_a_queue_with_other_contents_is_refused(keeps):
    state = LabelledQueue(1, 2, 2, NUM_CLASSES, keep_predictions=not keeps).state_dict()
    with pytest.raises(ValueError, match="predictions"):
        LabelledQueue(1, 2, 2, NUM_CLASSES, keep_predictions=keeps).load_state_dict(state)


def test_a_push_keeps_a_copy_without_gradient():
    rows = embeddings_of(range(1, 3), 1).requires_grad_()
    queue = LabelledQueue(1, 2, 2, NUM_CLASSES, keep_predictions=True)
    queue.push_(rows * 1, torch.tensor([0, 1]), rows * 2)
    assert not queue.embeddings_VCD.requires_grad
    assert not queue.predictions_VCD.requires_grad
    with torch.no_grad():
        rows.zero_()
    assert queue.embeddings_VCD[0, :, 0].tolist() == [1, 2]


def test_half_precision_rows_are_kept_in_single_precision():
    queue = LabelledQueue(1, 1, 2, NUM_CLASSES)
    queue.push_(torch.tensor([[[0.5, -0.25]]], dtype=torch.bfloat16), torch.tensor([1], dtype=torch.int32))
    assert queue.embeddings_VCD.dtype == torch.float32
    assert content(queue) == [(1, ((0.5, -0.25),))]


def test_predictions_of_another_shape_are_refused_before_anything_is_written():
    queue = LabelledQueue(2, 3, 2, 2, initial_labels="none", keep_predictions=True)
    for predictions in (None, torch.ones(1, 2, 2), torch.ones(2, 3, 2)):
        with pytest.raises(ValueError, match="a prediction for each embedding"):
            queue.push_(torch.ones(2, 2, 2), torch.tensor([0, 1]), predictions)
    assert len(queue) == 0
