from collections import Counter

import torch

from semppl.data.order import batch_indices, stream_indices


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
    labelled = torch.zeros(40, dtype=torch.bool)
    labelled[[3, 17, 30]] = True
    batches = [batch_indices(step, 8, labelled, seed=0, labelled_fraction=0.25) for step in range(20)]
    assert all(labelled[batch].sum() == 2 for batch in batches)
    assert set(torch.cat(batches).tolist()) == set(range(40))


def test_a_labelled_fraction_always_leaves_both_kinds():
    labelled = torch.tensor([True, False, False, False])
    for fraction in (0.001, 0.999):
        batch = batch_indices(0, 4, labelled, seed=0, labelled_fraction=fraction)
        assert labelled[batch].any()
        assert not labelled[batch].all()


def test_naturally_all_images_are_alike():
    labelled = torch.arange(10) < 2
    assert sorted(batch_indices(0, 10, labelled, seed=0).tolist()) == list(range(10))
