from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from semppl.method.negatives import draw_negatives


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(0, 14), st.integers(0, 10**6))
def test_a_row_holds_different_other_images_and_as_many_as_there_are(batch_size, count, seed):
    drawn = draw_negatives(batch_size, count, torch.Generator().manual_seed(seed)).tolist()
    assert len(drawn) == batch_size
    for m, row in enumerate(drawn):
        assert len(row) == min(count, batch_size - 1)
        assert len(set(row)) == len(row)
        assert set(row) <= set(range(batch_size)) - {m}


def test_every_set_of_negatives_is_equally_likely():
    generator = torch.Generator().manual_seed(0)
    counts = [dict.fromkeys(combinations(sorted({0, 1, 2, 3, 4} - {m}), 2), 0) for m in range(5)]
    for _ in range(600):
        for m, row in enumerate(draw_negatives(5, 2, generator).tolist()):
            counts[m][tuple(sorted(row))] += 1
    for count in counts:
        assert chisquare(list(count.values())).pvalue > 1e-3


def test_a_single_negative_is_uniform_over_the_others_in_a_large_batch():
    drawn = draw_negatives(4000, 1, torch.Generator().manual_seed(0)).squeeze(1)
    offsets = (drawn - torch.arange(4000)) % 4000
    assert offsets.min() >= 1
    assert chisquare(torch.histc(offsets.float(), 20, min=0.5, max=3999.5).numpy()).pvalue > 1e-3


def test_images_draw_independently_of_each_other():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.zeros(4, 4)
    for _ in range(800):
        drawn = draw_negatives(5, 1, generator)
        pairs[drawn[0] - 1, drawn[1] - (drawn[1] > 1).long()] += 1
    assert chisquare(pairs.flatten().numpy()).pvalue > 1e-3


@pytest.mark.parametrize("count", [5, 6, 100])
def test_a_batch_with_too_few_others_gives_each_of_them_once(count):
    drawn = draw_negatives(6, count, torch.Generator().manual_seed(0)).tolist()
    assert [sorted(row) for row in drawn] == [[n for n in range(6) if n != m] for m in range(6)]


def test_a_batch_of_one_has_no_negatives():
    drawn = draw_negatives(1, 10)
    assert drawn.tolist() == [[]]
    assert drawn.dtype == torch.long


def test_no_negatives_can_be_asked_for():
    assert draw_negatives(3, 0).tolist() == [[], [], []]


@pytest.mark.parametrize(("batch_size", "count"), [(4, -1), (0, 2), (-3, 2)])
def test_negative_counts_and_empty_batches_are_refused(batch_size, count):
    with pytest.raises(ValueError, match=f"{count} negatives from a batch of {batch_size}"):
        draw_negatives(batch_size, count)


def test_draws_are_a_function_of_the_generator():
    generator = torch.Generator().manual_seed(3)
    first, second = draw_negatives(30, 4, generator), draw_negatives(30, 4, generator)
    assert torch.equal(first, draw_negatives(30, 4, torch.Generator().manual_seed(3)))
    assert not torch.equal(first, second)


def test_many_negatives_are_drawn_just_as_well():
    drawn = draw_negatives(200, 100, torch.Generator().manual_seed(0))
    assert all(len(set(row)) == 100 and i not in row for i, row in enumerate(drawn.tolist()))
    often = torch.bincount(drawn.flatten(), minlength=200).double()
    assert chisquare(often.numpy()).pvalue > 1e-4
    everyone = draw_negatives(100, 99, torch.Generator().manual_seed(0))
    assert all(set(row) == set(range(100)) - {i} for i, row in enumerate(everyone.tolist()))
