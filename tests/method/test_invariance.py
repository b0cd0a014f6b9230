import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from semppl.method.invariance import (
    augmentation_partner,
    divergence,
    log_distribution,
    penalty,
    semantic_partner,
)
from semppl.method.positives import Positives

MODES = ["entropy_only", "teacher", "none"]


def unit(*shape, seed=0):
    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return vectors / vectors.norm(dim=-1, keepdim=True)


def random_logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def log_probabilities(anchor, positive, negatives, temperature):
    """log p(anchor; positive) with scalars: the positive first, then the negatives."""
    scores = [math.exp(float(anchor @ key) / temperature) for key in (positive, *negatives)]
    return [math.log(score / sum(scores)) for score in scores]


def kl(log_p, log_r):
    return sum(math.exp(p) * (p - r) for p, r in zip(log_p, log_r, strict=True))


def assert_near(tensor, values):
    torch.testing.assert_close(tensor.double(), torch.tensor(values, dtype=torch.float64), atol=1e-5, rtol=0)


def test_a_distribution_by_hand_has_the_positive_first():
    log_p = log_distribution(torch.tensor([2.0]).log(), torch.tensor([[3.0, 5.0]]).log())
    torch.testing.assert_close(log_p.exp(), torch.tensor([[0.2, 0.3, 0.5]]))


def test_all_positives_of_an_image_share_its_negatives():
    positive, negative = random_logits(3, 2, seed=1), random_logits(1, 2, 4, seed=2)
    together = log_distribution(positive, negative)
    for p in range(3):
        torch.testing.assert_close(together[p], log_distribution(positive[p], negative[0]))


@pytest.mark.parametrize("mode", MODES)
def test_divergence_by_hand_is_the_same_in_all_modes(mode):
    log_p, log_r = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log()
    assert divergence(log_p, log_r, mode).item() == pytest.approx(0.5 * math.log(4 / 3), abs=1e-6)
    assert divergence(log_r, log_p, mode).item() == pytest.approx(0.75 * math.log(3) - math.log(2), abs=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(MODES))
def test_divergence_is_zero_for_equal_distributions_and_never_negative(seed, mode):
    log_p = random_logits(5, 4, seed=seed).log_softmax(-1)
    log_r = random_logits(5, 4, seed=seed + 1).log_softmax(-1)
    torch.testing.assert_close(divergence(log_p, log_p.clone(), mode), torch.zeros(5, dtype=torch.float64))
    assert (divergence(log_p, log_r, mode) > 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_the_divergence_equal_their_closed_forms(mode):
    """With p = softmax(a) and r = softmax(b); H is the cross entropy −Σ p log r."""
    a, b = random_logits(6, seed=1).requires_grad_(), random_logits(6, seed=2).requires_grad_()
    divergence(a.log_softmax(-1), b.log_softmax(-1), mode).backward()
    p, r = a.detach().softmax(-1), b.detach().softmax(-1)
    cross_entropy, loss = -(p * r.log()).sum(), (p * (p / r).log()).sum()
    expected = {
        "entropy_only": p * (-r.log() - cross_entropy),
        "none": p * ((p / r).log() - loss),
        "teacher": None,
    }[mode]
    torch.testing.assert_close(b.grad, r - p)
    if expected is None:
        assert a.grad is None or not a.grad.any()
    else:
        torch.testing.assert_close(a.grad, expected)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_the_divergence_equal_autograd_of_the_formula_as_written(mode):
    leaves = [random_logits(3, 5, seed=seed).requires_grad_() for seed in (1, 2)]
    p, r = (leaf.exp() / leaf.exp().sum(-1, keepdim=True) for leaf in leaves)
    sg = torch.Tensor.detach
    formula = {
        "entropy_only": sg((p * p.log()).sum(-1)) - (p * r.log()).sum(-1),
        "teacher": (sg(p) * sg(p).log()).sum(-1) - (sg(p) * r.log()).sum(-1),
        "none": (p * (p / r).log()).sum(-1),
    }[mode]
    value = divergence(*(leaf.log_softmax(-1) for leaf in leaves), mode)
    torch.testing.assert_close(value, formula)
    options = {"allow_unused": True, "materialize_grads": True}
    weights = random_logits(3, seed=3)
    torch.testing.assert_close(
        torch.autograd.grad(value, leaves, weights, **options),
        torch.autograd.grad(formula, leaves, weights, **options),
    )


def test_the_divergence_without_stop_gradient_passes_gradcheck():
    a, b = random_logits(2, 4, seed=1).requires_grad_(), random_logits(2, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, y: divergence(x.log_softmax(-1), y.log_softmax(-1), "none"), (a, b)
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_penalty_of_a_view_with_itself_is_zero_and_so_is_its_gradient(mode):
    """The literal formula has the gradient of an entropy there, though its value is 0."""
    logits = random_logits(3, 2, 4, 5, seed=1).requires_grad_()
    log_p = logits.log_softmax(-1)
    loss = penalty(log_p, log_p[:2].transpose(0, 1), mode)
    assert torch.equal(loss[[0, 1], [0, 1]], torch.zeros(2, 4, dtype=torch.float64))
    assert (loss[[0, 1], [1, 0]] > 0).all()
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert torch.equal(gradient[[0, 1], [0, 1]], torch.zeros(2, 4, 5, dtype=torch.float64))
    assert (gradient[[0, 1], [1, 0]].norm(dim=-1) > 0).all()


def test_the_penalty_pairs_distributions_and_leaves_out_anchors_without_a_partner():
    log_p, log_r = (random_logits(4, 2, 3, 5, 6, seed=seed).log_softmax(-1) for seed in (1, 2))
    loss = penalty(log_p, log_r[:3], "none")
    assert loss.shape == (4, 2, 3, 5)
    for i in range(4):
        for j in range(2):
            for p in range(3):
                for m in range(5):
                    counted = i != j and i < 3
                    expected = kl(log_p[i, j, p, m].tolist(), log_r[i, j, p, m].tolist()) if counted else 0.0
                    assert loss[i, j, p, m].item() == pytest.approx(expected, abs=1e-12)


def test_the_partner_of_a_large_view_is_the_swapped_pair_and_of_a_small_view_the_large_prediction():
    num_large, num_small, num_images, temperature = 3, 2, 5, 0.3
    large, keys = unit(num_large, num_images, 4, seed=1), unit(num_small, num_images, 4, seed=3)
    negatives = [[1, 4], [2, 0], [3, 1], [0, 4], [0, 3]]
    log_p = random_logits(num_large + num_small, num_large, num_images, 3).log_softmax(-1)
    partner = augmentation_partner(log_p, large, keys, torch.tensor(negatives), temperature)
    for i in range(num_large):
        for j in range(num_large):
            assert torch.equal(partner[i, j].double(), log_p[j, i])
    for s in range(num_small):
        for j in range(num_large):
            for m in range(num_images):
                expected = log_probabilities(
                    large[j, m], keys[s, m], [keys[s, n] for n in negatives[m]], temperature
                )
                assert_near(partner[num_large + s, j, m], expected)
    without = augmentation_partner(log_p, large, None, torch.tensor(negatives), temperature)
    assert torch.equal(without, log_p[:num_large].transpose(0, 1))


@pytest.mark.parametrize("kind", ["standin", "store", "swap"])
def test_the_semantic_partner_holds_the_entry_against_the_view_of_the_anchor(kind):
    num_anchors, num_large, num_positives, num_images, temperature = 3, 2, 2, 4, 0.3
    entries = unit(num_anchors, num_large, num_positives, num_images, 5, seed=1)
    stored = unit(num_anchors, num_large, num_positives, num_images, 5, seed=2)
    own = unit(num_anchors, num_images, 5, seed=3)
    negatives = [[1, 3], [2, 0], [3, 1], [0, 2]]
    positives = Positives(entries, torch.ones(num_images, dtype=torch.bool), stored)
    partner = semantic_partner(entries, positives, own, torch.tensor(negatives), temperature, kind)
    for i in range(num_anchors):
        for j in range(num_large):
            for p in range(num_positives):
                for m in range(num_images):
                    anchor = (stored if kind == "store" else entries)[i, j, p, m]
                    keys = [own[i, n] for n in negatives[m]]
                    assert_near(partner[i, j, p, m], log_probabilities(anchor, own[i, m], keys, temperature))


def test_the_lockstep_partner_is_the_swapped_pair_of_large_views():
    log_p = random_logits(3, 2, 2, 4, 5).log_softmax(-1)
    positives = Positives(unit(3, 2, 2, 4, 6), torch.ones(4, dtype=torch.bool))
    partner = semantic_partner(
        log_p, positives, unit(3, 4, 6), torch.tensor([[1, 2, 3, 0]] * 4), 0.3, "lockstep"
    )
    assert torch.equal(partner, log_p[:2].transpose(0, 1))


def test_store_without_stored_predictions_is_refused():
    positives = Positives(unit(1, 1, 1, 2, 3), torch.ones(2, dtype=torch.bool))
    log_p, negatives = random_logits(1, 1, 1, 2, 2).log_softmax(-1), torch.tensor([[1], [0]])
    with pytest.raises(ValueError, match="keep_predictions"):
        semantic_partner(log_p, positives, unit(1, 2, 3), negatives, 0.3, "store")


@pytest.mark.parametrize("mode", ["entropy_only", "none"])
def test_a_batch_of_one_without_negatives_diverges_by_nothing_with_a_gradient_of_nothing(mode):
    logits = random_logits(3, 2, 1).requires_grad_()
    log_p = log_distribution(logits, logits.new_zeros(3, 2, 1, 0))
    loss = penalty(log_p, log_p[:2].transpose(0, 1), mode)
    assert torch.equal(loss, torch.zeros(3, 2, 1, dtype=torch.float64))
    loss.sum().backward()
    assert torch.equal(logits.grad, torch.zeros(3, 2, 1, dtype=torch.float64))
