import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from semppl.method.losses import (
    all_pairs_pay,
    contrastive,
    entry_negative_logits,
    log_sum,
    negative_logits,
    pair_logits,
)
from semppl.method.negatives import draw_negatives


def unit(*shape, seed=0):
    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return vectors / vectors.norm(dim=-1, keepdim=True)


def dot(a, b):
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def test_logits_are_scalar_products_over_the_temperature_of_every_pair_of_views():
    anchors, keys = unit(3, 5, 4, seed=1), unit(2, 5, 4, seed=2)
    negatives = torch.tensor([[1, 4], [2, 0], [3, 1], [0, 4], [0, 3]])
    positive, negative = pair_logits(anchors, keys, 0.2), negative_logits(anchors, keys, negatives, 0.2)
    assert positive.shape == (3, 2, 5)
    assert negative.shape == (3, 2, 5, 2)
    for i in range(3):
        for j in range(2):
            for m in range(5):
                assert positive[i, j, m].item() == pytest.approx(
                    dot(anchors[i, m], keys[j, m]) / 0.2, abs=1e-5
                )
                for n in range(2):
                    expected = dot(anchors[i, m], keys[j, negatives[m, n]]) / 0.2
                    assert negative[i, j, m, n].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("num_images", "dim"), [(5, 4), (5, 40)])
def test_negatives_are_the_same_whether_they_are_gathered_or_chosen_from_all_pairs(num_images, dim):
    anchors, keys = unit(3, num_images, dim, seed=1), unit(2, num_images, dim, seed=2)
    entries = unit(3, 2, 2, num_images, dim, seed=3)
    negatives = draw_negatives(num_images, 3, torch.Generator().manual_seed(4))
    assert all_pairs_pay(len(anchors), keys, negatives) == (dim == 40)
    assert all_pairs_pay(4, anchors, negatives) == (dim == 40)
    found = negative_logits(anchors, keys, negatives, 0.2)
    of_entries = entry_negative_logits(entries, anchors, negatives, 0.2)
    assert found.shape == (3, 2, num_images, 3)
    assert of_entries.shape == (3, 2, 2, num_images, 3)
    for i, j, m, n in product(range(3), range(2), range(num_images), range(3)):
        other = negatives[m, n]
        expected = dot(anchors[i, m], keys[j, other]) / 0.2
        assert found[i, j, m, n].item() == pytest.approx(expected, abs=1e-5)
        for p in range(2):
            expected = dot(entries[i, j, p, m], anchors[i, other]) / 0.2
            assert of_entries[i, j, p, m, n].item() == pytest.approx(expected, abs=1e-5)


def test_all_pairs_of_images_are_not_made_where_they_are_more_numbers_than_keys_of_negatives():
    keys, negatives = torch.empty(4, 4096, 256), torch.empty(4096, 10, dtype=torch.long)
    assert not all_pairs_pay(6, keys, negatives)  # the paper's step
    assert not all_pairs_pay(1, keys, negatives[:, :0])  # none at all
    assert not all_pairs_pay(1, torch.empty(2, 5, 40, device="meta"), torch.empty(5, 3))


@pytest.mark.parametrize(("num_negatives", "pay"), [(16, True), (15, False)])
def test_all_pairs_of_many_images_pay_with_many_negatives_alone(num_negatives, pay):
    keys, negatives = torch.empty(2, 512, 256), torch.empty(512, num_negatives)
    assert all_pairs_pay(2, keys, negatives) == pay


def test_contrastive_by_hand():
    """Scores 2 against 3 and 5: the positive has probability 2/10."""
    loss = contrastive(torch.tensor(2.0).log(), log_sum(torch.tensor([3.0, 5.0]).log()))
    assert loss.item() == pytest.approx(math.log(5))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.floats(0.05, 2))
def test_the_leading_temperature_of_the_score_cancels(products, temperature):
    """φ = τ exp(⟨a, b⟩/τ), eq. 1, with math in double precision."""
    scores = [temperature * math.exp(product / temperature) for product in products]
    logits = torch.tensor(products, dtype=torch.float64) / temperature
    loss = contrastive(logits[0], log_sum(logits[1:]))
    assert loss.item() == pytest.approx(-math.log(scores[0] / sum(scores)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("num_negatives", [1, 3, 10])
def test_uninformative_embeddings_cost_the_log_of_one_plus_the_negatives(num_negatives):
    collapsed = unit(1, 1, 6).expand(2, num_negatives + 1, 6)
    every = range(num_negatives + 1)
    negatives = torch.tensor([[n for n in every if n != m] for m in every])
    rest = log_sum(negative_logits(collapsed, collapsed, negatives, 0.2))
    loss = contrastive(pair_logits(collapsed, collapsed, 0.2), rest)
    expected = torch.full((2, 2, num_negatives + 1), math.log(1 + num_negatives))
    torch.testing.assert_close(loss, expected)


def test_without_negatives_the_loss_of_a_batch_of_one_is_exactly_zero_with_a_finite_gradient():
    anchors = unit(3, 1, 4).requires_grad_()
    keys = unit(2, 1, 4, seed=1).requires_grad_()
    rest = log_sum(negative_logits(anchors, keys, torch.zeros(1, 0, dtype=torch.long), 0.2))
    loss = contrastive(pair_logits(anchors, keys, 0.2), rest)
    assert torch.equal(loss, torch.zeros(3, 2, 1))
    loss.sum().backward()
    assert torch.equal(anchors.grad, torch.zeros(3, 1, 4))
    assert torch.equal(keys.grad, torch.zeros(2, 1, 4))


def test_the_gradient_is_the_softmax_less_the_target():
    logits = torch.tensor([2.0, 3.0, 5.0]).log().requires_grad_()
    contrastive(logits[0], log_sum(logits[1:])).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([0.2 - 1, 0.3, 0.5]))


def test_extreme_logits_neither_overflow_nor_vanish():
    loss = contrastive(
        torch.tensor([-500.0, 500.0]), log_sum(torch.tensor([[500.0, 500.0], [-500.0, -500.0]]))
    )
    torch.testing.assert_close(loss, torch.tensor([1000.0 + math.log(2), 0.0]))


def test_all_similarities_negative_still_prefer_the_least_negative():
    """Cosines −0.2 against −0.6 and −1 at temperature 0.2."""
    loss = contrastive(torch.tensor(-1.0), log_sum(torch.tensor([-3.0, -5.0])))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2) + math.exp(-4)), abs=1e-6)
