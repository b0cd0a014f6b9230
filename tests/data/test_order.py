from collections import Counter
from itertools import islice, pairwise

import pytest
import torch

from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator
from semppl.data import order
from semppl.data.order import NATURAL, Mixture, Order, stream_indices

BALANCED = Mixture(0.5, balanced=True)


def labels_of(counts, unlabelled):
    """So many labels of each class, among images without any; the same each time."""
    labels = torch.tensor([each for each, count in enumerate(counts) for _ in range(count)])
    labels = torch.cat([labels, torch.full((unlabelled,), UNLABELLED)])
    return labels[torch.randperm(len(labels), generator=generator(0, "labels"))]


def drawn(labels, steps, mixture=BALANCED, batch_size=12, seed=0, first=0):
    """Labelled images in the order in which they come, of steps made by an order of their own each."""
    batches = [
        Order(labels, batch_size=batch_size, seed=seed, mixture=mixture)(first + i) for i in range(steps)
    ]
    index = torch.cat(batches)
    return index[labels[index] != UNLABELLED]


def test_an_epoch_shows_every_image_once_even_if_sizes_do_not_divide():
    shown = torch.cat([stream_indices(step, 7, 10, seed=0, name="all") for step in range(10)])
    assert Counter(shown.tolist()) == dict.fromkeys(range(10), 7)
    assert sorted(shown[:10].tolist()) == list(range(10))
    assert sorted(shown[10:20].tolist()) == list(range(10))


def test_epochs_and_seeds_have_orders_of_their_own():
    first, second = (stream_indices(step, 50, 50, seed=0, name="all") for step in (0, 1))
    assert not torch.equal(first, second)
    assert not torch.equal(first, stream_indices(0, 50, 50, seed=1, name="all"))
    assert torch.equal(first, stream_indices(0, 50, 50, seed=0, name="all"))


def test_a_batch_larger_than_an_epoch_goes_through_several():
    assert Counter(stream_indices(0, 9, 3, seed=0, name="all").tolist()) == {0: 3, 1: 3, 2: 3}


def test_a_labelled_fraction_fixes_the_share_and_still_visits_everything():
    labels = torch.full((40,), UNLABELLED)
    labels[[3, 17, 30]] = 0
    images = Order(labels, batch_size=8, seed=0, mixture=Mixture(0.25))
    batches = [images(step) for step in range(20)]
    assert all((labels[batch] == 0).sum() == 2 for batch in batches)
    assert set(torch.cat(batches).tolist()) == set(range(40))


@pytest.mark.parametrize("balanced", [False, True])
def test_a_labelled_fraction_always_leaves_both_kinds(balanced):
    labels = torch.tensor([1, UNLABELLED, UNLABELLED, UNLABELLED])
    for fraction in (0.001, 0.999):
        batch = Order(labels, batch_size=4, seed=0, mixture=Mixture(fraction, balanced))(0)
        assert (labels[batch] == 1).any()
        assert not (labels[batch] == 1).all()


def test_naturally_all_images_are_alike():
    labels = torch.tensor([0, 1] + 8 * [UNLABELLED])
    assert sorted(Order(labels, batch_size=10, seed=0)(0).tolist()) == list(range(10))


def test_without_balance_the_streams_are_those_of_the_images_and_of_both_kinds():
    labels = labels_of([5, 2, 9], unlabelled=20)
    given, others = ((labels >= 0).nonzero().squeeze(1), (labels < 0).nonzero().squeeze(1))
    for step in (0, 3, 50):
        natural = Order(labels, batch_size=8, seed=4)(step)
        assert torch.equal(natural, stream_indices(step, 8, 36, 4, "all"))
        parts = (
            given[stream_indices(step, 2, 16, 4, "labelled")],
            others[stream_indices(step, 6, 20, 4, "unlabelled")],
        )
        shared = Order(labels, batch_size=8, seed=4, mixture=Mixture(0.25))(step)
        assert torch.equal(shared, torch.cat(parts))


def test_balanced_draws_by_hand(monkeypatch):
    """Permutations that turn by one from epoch to epoch; class 1 has no label and class 2 a single one.

    Rounds: 0 2, 2 0, 0 2, ... Class 0 shows 0 3 4, then 4 0 3. Without labels 1 2 6 7, then 7 1 2 6.
    """

    def turned(size, seed, name, epoch):
        return torch.arange(size).roll(epoch)

    monkeypatch.setattr(order, "_permutation", turned)
    monkeypatch.setattr(order, "_drawn", turned)
    labels = torch.tensor([0, -1, -1, 0, 0, 2, -1, -1])
    images = Order(labels, batch_size=5, seed=0, mixture=Mixture(0.6, balanced=True))
    assert [images(step).tolist() for step in range(4)] == [
        [0, 5, 5, 1, 2],
        [3, 4, 5, 6, 7],
        [5, 4, 0, 7, 1],
        [5, 5, 3, 2, 6],
    ]


def dealt(labels, seed):
    """The same as one deals by hand: no arithmetic of positions, only iterators."""

    def endless(things, name):
        epoch = 0
        while True:
            for place in torch.randperm(len(things), generator=generator(seed, f"order/{name}", epoch)):
                yield things[place]
            epoch += 1

    classes = sorted(set(labels.tolist()) - {UNLABELLED})
    images = {
        each: endless((labels == each).nonzero().flatten().tolist(), f"class/{each}") for each in classes
    }
    for each in endless(classes, "classes"):
        yield next(images[each])


@pytest.mark.parametrize("counts", [[20, 20, 2, 1], [1], [3, 0, 0, 7], [4, 4, 4], [1, 1, 1, 1, 1, 1, 1, 30]])
def test_balanced_draws_by_brute_force(counts):
    labels = labels_of(counts, unlabelled=15)
    assert drawn(labels, 20, seed=5).tolist() == list(islice(dealt(labels, 5), 120))


@pytest.mark.parametrize("batch_size", [4, 10, 26])
def test_every_class_comes_equally_often(batch_size):
    labels = labels_of([20, 3, 0, 1, 7], unlabelled=30)  # class 2 has no labels, class 3 a single one
    class_N = labels[drawn(labels, 30, batch_size=batch_size)]
    assert set(class_N.tolist()) == {0, 1, 3, 4}
    seen_N4 = (class_N[:, None] == torch.tensor([0, 1, 3, 4])).long()
    assert (seen_N4[: len(class_N) // 4 * 4].view(-1, 4, 4).sum(1) == 1).all(), "each round has each once"
    windows = seen_N4.unfold(0, 4, 1).sum(2)
    assert windows.min() >= 0
    assert windows.max() <= 2, "any four draws in a row: once, give or take one"
    so_far_N4 = seen_N4.cumsum(0)
    assert (so_far_N4.max(1).values - so_far_N4.min(1).values).max() == 1
    rounds = class_N[: len(class_N) // 4 * 4].view(-1, 4)
    assert len({tuple(each) for each in rounds.tolist()}) > 5, "in orders drawn anew"


def test_every_image_of_a_class_comes_once_in_each_of_its_epochs():
    labels = labels_of([20, 3, 0, 1, 7], unlabelled=30)
    index_N = drawn(labels, 100)
    for each, count in ((0, 20), (1, 3), (3, 1), (4, 7)):
        own = index_N[labels[index_N] == each]
        members = (labels == each).nonzero().flatten()
        epochs = own[: len(own) // count * count].view(-1, count)
        assert len(epochs) >= 7
        assert (epochs.sort(1).values == members).all()
        assert count == 1 or any(not torch.equal(a, b) for a, b in pairwise(epochs))


def test_labels_that_are_balanced_already_come_in_another_order():
    labels = labels_of([4, 4, 4], unlabelled=20)
    for mixture in (BALANCED, Mixture(0.5)):
        epochs = drawn(labels, 6, mixture).view(3, 12)
        assert (epochs.sort(1).values == (labels >= 0).nonzero().flatten()).all()
    assert not torch.equal(drawn(labels, 6), drawn(labels, 6, Mixture(0.5)))


def test_a_step_does_not_depend_on_those_before_nor_the_draws_on_the_share():
    labels = labels_of([20, 3, 1], unlabelled=30)
    images = Order(labels, batch_size=12, seed=0, mixture=BALANCED)
    in_a_row = [images(step) for step in range(9)]
    for step in (7, 2, 8, 0):
        assert torch.equal(Order(labels, batch_size=12, seed=0, mixture=BALANCED)(step), in_a_row[step])
        assert torch.equal(images(step), in_a_row[step])
    assert torch.equal(drawn(labels, 12, batch_size=6), drawn(labels, 6, batch_size=12))


def test_balance_has_draws_of_its_own_for_each_seed_and_leaves_other_images_alone():
    labels = labels_of([20, 3, 1], unlabelled=30)
    assert not torch.equal(drawn(labels, 5), drawn(labels, 5, seed=1))
    for step in range(5):
        on, off = (
            Order(labels, batch_size=12, seed=0, mixture=each)(step) for each in (BALANCED, Mixture(0.5))
        )
        assert torch.equal(on[6:], off[6:])
        assert (labels[on[6:]] == UNLABELLED).all()


def test_balanced_labels_have_by_default_their_share_of_the_data():
    natural = Mixture(balanced=True)
    assert natural != NATURAL
    for counts, unlabelled, expected in (([6, 3], 27, 3), ([1, 0], 99, 1), ([90, 8], 1, 11), ([6, 3], 0, 12)):
        labels = labels_of(counts, unlabelled)
        batch = Order(labels, batch_size=12, seed=0, mixture=natural)(3)
        assert len(batch) == 12
        assert int((labels[batch] != UNLABELLED).sum()) == expected
    labels = torch.full((9,), UNLABELLED)
    assert sorted(Order(labels, batch_size=9, seed=0, mixture=natural)(0).tolist()) == list(range(9))
