import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from semppl.method.objective import BYOL, ReLICv2, SimCLR
from semppl.method.positives import Positives

TEMPERATURE, CONTRAST, INVARIANCE, ALPHA = 0.2, 0.3, 5.0, 0.2
OBJECTIVES = [ReLICv2(), SimCLR(), BYOL()]


def unit(*shape, seed=0):
    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return F.normalize(vectors, dim=-1)


def example(
    num_large=4, num_small=2, num_positives=3, num_images=6, num_negatives=3, dim=8, *, lost=(1, 4), seed=0
):
    """Embeddings of a batch and of two queues of ten slots (projections and predictions), with fixed draws.

    (i, j) and (j, i) draw the same slots; for the images in `lost` nothing was found.
    """
    rng = torch.Generator().manual_seed(seed)
    case = SimpleNamespace(large=num_large, anchors=num_large + num_small, positives=num_positives)
    case.images = num_images
    case.online = unit(case.anchors, num_images, dim, seed=seed + 1)
    case.target = unit(num_large, num_images, dim, seed=seed + 2)
    case.small_target = unit(num_small, num_images, dim, seed=seed + 3)
    case.queue, case.stored = unit(num_large, 10, dim, seed=seed + 4), unit(num_large, 10, dim, seed=seed + 5)
    case.slots = torch.randint(10, (case.anchors, num_large, num_positives, num_images), generator=rng)
    for i in range(num_large):
        for j in range(i):
            case.slots[i, j] = case.slots[j, i]
    case.found = torch.tensor([m not in lost for m in range(num_images)])
    others = [[n for n in range(num_images) if n != m] for m in range(num_images)]
    chosen = [torch.randperm(num_images - 1, generator=rng)[:num_negatives] for _ in range(num_images)]
    case.negatives = torch.tensor([[others[m][n] for n in chosen[m].tolist()] for m in range(num_images)])
    return case


def drawn(case):
    """What `sample_positives` hands over for the draws of the case."""
    views = torch.arange(case.large)[:, None, None]
    keep = case.found[:, None]
    return Positives(case.queue[views, case.slots] * keep, case.found, case.stored[views, case.slots] * keep)


def doubles(case):
    """The case in double precision, with each online prediction a leaf of its own."""
    copy = SimpleNamespace(**vars(case))
    copy.online = [[row.double().requires_grad_() for row in view] for view in case.online]
    for name in ("target", "small_target", "queue", "stored"):
        setattr(copy, name, getattr(case, name).double())
    copy.slots, copy.negatives, copy.found = case.slots.tolist(), case.negatives.tolist(), case.found.tolist()
    return copy


def distribution(anchor, positive, negatives):
    """p(anchor; positive) over the positive and the negatives, with φ as the paper writes it."""
    scores = [TEMPERATURE * torch.exp(anchor @ key / TEMPERATURE) for key in (positive, *negatives)]
    return [score / sum(scores) for score in scores]


def divergence(p, r, stop_gradient):
    if stop_gradient == "teacher":
        p = [x.detach() for x in p]
    entropy = sum(x * torch.log(x) for x in p)
    if stop_gradient == "entropy_only":
        entropy = entropy.detach()
    return entropy - sum(x * torch.log(y) for x, y in zip(p, r, strict=True))


def keys_of(case, i, small_partner):
    """The target projections of view i; what stands in for them where i is small."""
    if i < case.large:
        return case.target[i]
    if small_partner == "run_target":
        return case.small_target[i - case.large]
    return [row.detach() for row in case.online[i]]


def augmentation_partner(case, i, j, m, small_partner):
    if i == j or (i >= case.large and small_partner == "none"):
        return None
    keys = keys_of(case, i, small_partner)
    return distribution(case.online[j][m], keys[m], [keys[n] for n in case.negatives[m]])


def semantic_partner(case, i, j, m, slot, kind, small_partner):
    if i == j or kind == "none" or (kind == "lockstep" and i >= case.large):
        return None
    keys = case.online[i] if kind == "swap" else keys_of(case, i, small_partner)
    negatives = [keys[n] for n in case.negatives[m]]
    if kind == "lockstep":
        return distribution(case.online[j][m], case.queue[i][slot], negatives)
    entry = (case.stored if kind == "store" else case.queue)[j][slot]
    return distribution(entry, keys[m], negatives)


def listing(case, kind, small_partner, stop_gradient):
    """The paper's listing and its invariance penalty; small views are anchors too (it prints `ol_i`)."""
    augmentation = semantic = torch.zeros((), dtype=torch.float64)
    invariance_augmentation = invariance_semantic = augmentation
    for i in range(case.anchors):
        for j in range(case.large):
            for m in range(case.images):
                negatives = [case.target[j][n] for n in case.negatives[m]]
                p = distribution(case.online[i][m], case.target[j][m], negatives)
                augmentation = augmentation - torch.log(p[0])
                r = augmentation_partner(case, i, j, m, small_partner)
                if r is not None:
                    invariance_augmentation = invariance_augmentation + divergence(p, r, stop_gradient)
                for repeat in range(case.positives if case.found[m] else 0):
                    slot = case.slots[i][j][repeat][m]
                    p = distribution(case.online[i][m], case.queue[j][slot], negatives)
                    semantic = semantic - torch.log(p[0])
                    r = semantic_partner(case, i, j, m, slot, kind, small_partner)
                    if r is not None:
                        invariance_semantic = invariance_semantic + divergence(p, r, stop_gradient)
    total = CONTRAST * (augmentation + ALPHA * semantic)
    total = (total + INVARIANCE * (invariance_augmentation + invariance_semantic)) / (1 + case.positives)
    terms = (total, augmentation, semantic, invariance_augmentation, invariance_semantic)
    return torch.stack(terms) / (case.anchors * case.large * case.images)


def assert_listing_agrees(case, **options):
    settings = {"semantic_partner": "standin", "small_partner": "standin", "stop_gradient": "entropy_only"}
    settings |= options
    reference = doubles(case)
    expected = listing(reference, *settings.values())
    expected[0].backward()
    gradient = torch.stack([torch.stack([row.grad for row in view]) for view in reference.online])

    online = case.online.clone().requires_grad_()
    small_target = case.small_target if settings["small_partner"] == "run_target" else None
    terms = ReLICv2(**options)(online, case.target, drawn(case), case.negatives, small_target)
    terms.total.backward()
    torch.testing.assert_close(torch.stack(terms).double(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(online.grad.double(), gradient, atol=1e-5, rtol=0)
    return terms


@pytest.mark.parametrize("stop_gradient", ["entropy_only", "none"])
@pytest.mark.parametrize("semantic_partner", ["standin", "swap", "store", "lockstep", "none"])
def test_the_paper_s_listing_as_nested_loops_gives_the_same_terms_and_gradient(
    semantic_partner, stop_gradient
):
    terms = assert_listing_agrees(example(), semantic_partner=semantic_partner, stop_gradient=stop_gradient)
    assert (terms.invariance_semantic.item() == 0) == (semantic_partner == "none")


@pytest.mark.parametrize("semantic_partner", ["swap", "lockstep", "none"])
def test_the_listing_agrees_where_the_first_distribution_is_a_teacher(semantic_partner):
    assert_listing_agrees(example(seed=1), semantic_partner=semantic_partner, stop_gradient="teacher")


@pytest.mark.parametrize("semantic_partner", ["standin", "lockstep"])
@pytest.mark.parametrize("small_partner", ["none", "run_target"])
def test_the_listing_agrees_for_every_partner_of_a_small_view(small_partner, semantic_partner):
    assert_listing_agrees(example(seed=2), small_partner=small_partner, semantic_partner=semantic_partner)


def test_the_listing_agrees_where_every_positive_was_found_and_there_are_no_small_views():
    assert_listing_agrees(example(num_large=3, num_small=0, num_positives=2, lost=(), seed=3))


def test_without_positives_the_total_is_a_hand_written_relicv2_loss():
    case = example(num_large=3, num_small=0, seed=4)
    online = case.online.clone().requires_grad_()
    terms = ReLICv2()(online, case.target, None, case.negatives)
    logits = {}
    for i in range(3):
        for j in range(3):
            positive = (online[i] * case.target[j]).sum(-1, keepdim=True)
            negative = (online[i][:, None] * case.target[j][case.negatives]).sum(-1)
            logits[i, j] = torch.cat([positive, negative], dim=1) / 0.2
    first = torch.zeros(6, dtype=torch.long)
    contrast = sum(F.cross_entropy(logits[pair], first) for pair in logits) / 9
    invariance = sum(
        F.kl_div(
            logits[j, i].log_softmax(-1), logits[i, j].log_softmax(-1), log_target=True, reduction="batchmean"
        )
        for i, j in logits
    )
    assert terms.augmentation.item() == pytest.approx(contrast.item(), abs=1e-5)
    assert terms.invariance_augmentation.item() == pytest.approx(invariance.item() / 9, abs=1e-5)
    assert terms.total.item() == pytest.approx((0.3 * contrast + 5 * invariance / 9).item(), abs=1e-5)
    assert (terms.semantic.item(), terms.invariance_semantic.item()) == (0, 0)


def test_alpha_zero_leaves_out_the_semantic_invariance_too():
    case = example()
    with_positives = ReLICv2(alpha=0.0, divide_by_positives=False)(
        case.online, case.target, drawn(case), case.negatives
    )
    without = ReLICv2()(case.online, case.target, None, case.negatives)
    assert with_positives.semantic.item() == with_positives.invariance_semantic.item() == 0
    torch.testing.assert_close(with_positives.total, without.total)


def test_an_invariance_scale_of_zero_leaves_the_contrastive_terms():
    case = example()
    full = ReLICv2()(case.online, case.target, drawn(case), case.negatives)
    terms = ReLICv2(invariance_scale=0.0)(case.online, case.target, drawn(case), case.negatives)
    assert terms.invariance_augmentation.item() == terms.invariance_semantic.item() == 0
    torch.testing.assert_close(terms[1:3], full[1:3])
    torch.testing.assert_close(terms.total, 0.3 * (terms.augmentation + 0.2 * terms.semantic) / 4)


def test_without_same_view_the_contrast_averages_over_pairs_of_different_views():
    case = example(num_large=2, num_small=1, num_positives=1, lost=(0,))
    terms = ReLICv2(same_view=False)(case.online, case.target, drawn(case), case.negatives)
    augmentation, semantic = [], []
    for i, j in [(0, 1), (1, 0), (2, 0), (2, 1)]:
        for m in range(6):
            negatives = [case.target[j][n] for n in case.negatives[m].tolist()]
            entry = case.queue[j][case.slots[i, j, 0, m]]
            augmentation.append(-distribution(case.online[i, m], case.target[j, m], negatives)[0].log())
            semantic.append(-distribution(case.online[i, m], entry, negatives)[0].log() * case.found[m])
    assert terms.augmentation.item() == pytest.approx(sum(augmentation).item() / 24, abs=1e-5)
    assert terms.semantic.item() == pytest.approx(sum(semantic).item() / 24, abs=1e-5)


@pytest.mark.parametrize("objective", [ReLICv2, SimCLR, BYOL])
def test_the_division_by_one_plus_the_positives_can_be_left_out(objective):
    case = example()
    divided = objective()(case.online, case.target, drawn(case), case.negatives)
    whole = objective(divide_by_positives=False)(case.online, case.target, drawn(case), case.negatives)
    torch.testing.assert_close(whole.total, 4 * divided.total)
    torch.testing.assert_close(whole[1:], divided[1:])


@pytest.mark.parametrize("semantic_partner", ["standin", "store"])
def test_a_teacher_without_a_pupil_is_refused(semantic_partner):
    with pytest.raises(ValueError, match="without a gradient"):
        ReLICv2(stop_gradient="teacher", semantic_partner=semantic_partner)


def test_missing_target_projections_of_small_views_are_refused():
    case = example()
    with pytest.raises(ValueError, match="run_target"):
        ReLICv2(small_partner="run_target")(case.online, case.target, None, case.negatives)


def test_missing_stored_predictions_are_refused():
    case = example()
    positives = drawn(case)._replace(predictions_AVPBD=None)
    with pytest.raises(ValueError, match="keep_predictions"):
        ReLICv2(semantic_partner="store")(case.online, case.target, positives, case.negatives)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["ReLICv2", "SimCLR", "BYOL"])
@settings(deadline=None, max_examples=8)
@given(st.permutations(range(6)), st.booleans())
def test_permuting_the_batch_changes_no_term(objective, order, with_negatives):
    case, order = example(), torch.tensor(order)
    positives = drawn(case)._replace(trust_B=torch.linspace(0.1, 1, case.images))
    permuted = Positives(
        *(tensor.index_select(-2, order) if tensor.dim() > 1 else tensor[order] for tensor in positives)
    )
    negatives = case.negatives if with_negatives else None
    new_names = order.argsort()[case.negatives[order]] if with_negatives else None
    terms = objective(case.online, case.target, positives, negatives)
    other = objective(case.online[:, order], case.target[:, order], permuted, new_names)
    torch.testing.assert_close(tuple(other), tuple(terms), atol=1e-5, rtol=1e-5)


def test_without_negatives_given_relicv2_contrasts_with_all_other_images():
    case = example(num_images=3, num_negatives=2, lost=())
    terms = ReLICv2()(case.online, case.target, drawn(case))
    expected = ReLICv2()(case.online, case.target, drawn(case), torch.tensor([[1, 2], [2, 0], [0, 1]]))
    torch.testing.assert_close(tuple(terms), tuple(expected))


@pytest.mark.parametrize("objective", [ReLICv2(), SimCLR()])
def test_collapsed_embeddings_cost_the_log_of_one_plus_the_negatives(objective):
    case = example(lost=())
    collapsed = unit(1, 1, 8).expand(6, 6, 8)
    positives = Positives(collapsed[0].expand(6, 4, 3, 6, 8), case.found)
    terms = objective(collapsed, collapsed[:4], positives, case.negatives)
    assert terms.augmentation.item() == pytest.approx(math.log(4), abs=1e-5)
    assert terms.semantic.item() == pytest.approx(3 * math.log(4), abs=1e-5)
    assert terms.invariance_augmentation.item() == pytest.approx(0, abs=1e-6)
    assert terms.invariance_semantic.item() == pytest.approx(0, abs=1e-6)


def test_simclr_of_two_views_is_textbook_nt_xent():
    """Chen et al. 2020, eq. 1: 2B projections, each against the other 2B − 1; gradient through both sides."""
    projections = unit(2, 5, 4, seed=1)
    online = projections.clone().requires_grad_()
    total = SimCLR(temperature=0.5)(online, online).total
    total.backward()

    rows = [row.double().requires_grad_() for view in projections for row in view]
    losses = []
    for k, row in enumerate(rows):
        scores = {n: torch.exp(row @ other / 0.5) for n, other in enumerate(rows) if n != k}
        losses.append(-torch.log(scores[(k + 5) % 10] / sum(scores.values())))
    expected = sum(losses) / 10
    expected.backward()
    assert total.item() == pytest.approx(expected.item(), abs=1e-5)
    gradient = torch.stack([row.grad for row in rows]).view(2, 5, 4)
    torch.testing.assert_close(online.grad.double(), gradient, atol=1e-5, rtol=0)


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("run_target", [True, False])
def test_simclr_with_small_views_and_semantic_positives_by_loops(sampled, run_target):
    """Negatives of anchor view i and target view j: sampled images of view j, or all others of both."""
    case = example(num_large=2, num_small=1, num_positives=2, lost=(2,))
    small = case.small_target if run_target else case.online[2:]
    own = torch.cat([case.target, small])
    augmentation = semantic = 0.0
    for i, j in [(0, 1), (1, 0), (2, 0), (2, 1)]:
        for m in range(6):
            negatives = [
                case.target[j, n] for n in (case.negatives[m].tolist() if sampled else range(6)) if n != m
            ]
            negatives += [] if sampled else [own[i, n] for n in range(6) if n != m]
            augmentation -= math.log(distribution(case.online[i, m], case.target[j, m], negatives)[0])
            for repeat in range(2 if case.found[m] else 0):
                entry = case.queue[j, case.slots[i, j, repeat, m]]
                semantic -= math.log(distribution(case.online[i, m], entry, negatives)[0])
    negatives_BN = case.negatives if sampled else None
    terms = SimCLR()(
        case.online, case.target, drawn(case), negatives_BN, case.small_target if run_target else None
    )
    assert terms.augmentation.item() == pytest.approx(augmentation / 24, abs=1e-5)
    assert terms.semantic.item() == pytest.approx(semantic / 24, abs=1e-5)
    assert terms.total.item() == pytest.approx((augmentation + 0.2 * semantic) / 24 / 3, abs=1e-5)
    assert terms.invariance_augmentation.item() == terms.invariance_semantic.item() == 0


def test_byol_is_the_squared_distance_averaged_over_different_views_by_loops():
    case = example(num_large=2, num_small=1, num_positives=2, lost=(2,))
    augmentation = semantic = 0.0
    for i, j in [(0, 1), (1, 0), (2, 0), (2, 1)]:
        for m in range(6):
            augmentation += float(((case.online[i, m] - case.target[j, m]) ** 2).sum())
            for repeat in range(2 if case.found[m] else 0):
                entry = case.queue[j, case.slots[i, j, repeat, m]]
                semantic += float(((case.online[i, m] - entry) ** 2).sum())
    terms = BYOL()(case.online, case.target, drawn(case))
    assert terms.augmentation.item() == pytest.approx(augmentation / 24, abs=1e-5)
    assert terms.semantic.item() == pytest.approx(semantic / 24, abs=1e-5)
    assert terms.total.item() == pytest.approx((augmentation + 0.2 * semantic) / 24 / 3, abs=1e-5)
    assert terms.invariance_augmentation.item() == terms.invariance_semantic.item() == 0


def test_byol_by_hand():
    """Cosines of view 0 with the other view: 0 and 1; of view 1: 0.6 and −1."""
    online = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.0, -1.0]]])
    target = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    assert BYOL()(online, target).total.item() == pytest.approx((2 + 0 + 0.8 + 4) / 4)
    assert BYOL(same_view=True)(online, target).total.item() == pytest.approx((0 + 0 + 6.8 + 0.4 + 4) / 8)


def test_byol_of_equal_unit_vectors_is_zero():
    collapsed = unit(1, 1, 4).expand(3, 5, 4)
    positives = Positives(collapsed[0].expand(3, 2, 2, 5, 4), torch.ones(5, dtype=torch.bool))
    terms = BYOL()(collapsed, collapsed[:2], positives)
    assert terms.total.item() == pytest.approx(0, abs=1e-6)
    assert terms.semantic.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["ReLICv2", "SimCLR", "BYOL"])
def test_only_the_online_predictions_receive_a_gradient(objective):
    case = example()
    positives, online = drawn(case), case.online.clone().requires_grad_()
    objective(online, case.target, positives, case.negatives).total.backward()
    assert (online.grad.norm(dim=-1) > 0).all()
    constants = [case.target, positives.embeddings_AVPBD, positives.predictions_AVPBD]
    assert all(tensor.grad is None and not tensor.requires_grad for tensor in constants)


@pytest.mark.parametrize("with_negatives", [True, False])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=["ReLICv2", "SimCLR", "BYOL"])
def test_a_batch_of_one_is_finite_in_value_and_gradient(objective, with_negatives):
    case = example(num_images=1, lost=())
    online = case.online.clone().requires_grad_()
    negatives = torch.zeros(1, 0, dtype=torch.long) if with_negatives else None
    terms = objective(online, case.target, drawn(case), negatives)
    terms.total.backward()
    if isinstance(objective, BYOL):
        assert 0 < terms.total.item() < 4
        assert online.grad.isfinite().all()
    else:
        assert [term.item() for term in terms] == [0] * 5
        assert torch.equal(online.grad, torch.zeros_like(online))


@pytest.mark.parametrize("semantic_partner", ["standin", "store", "swap", "lockstep"])
def test_relicv2_of_nothing_found_keeps_only_the_augmentation_terms(semantic_partner):
    case = example(lost=range(6))
    objective, online = ReLICv2(semantic_partner=semantic_partner), case.online.clone().requires_grad_()
    terms = objective(online, case.target, drawn(case), case.negatives)
    without = objective(online, case.target, None, case.negatives)
    assert terms.semantic.item() == terms.invariance_semantic.item() == 0
    torch.testing.assert_close(4 * terms.total, without.total)
    gradients = [torch.autograd.grad(total, online)[0] for total in (4 * terms.total, without.total)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("objective", [SimCLR(), BYOL()])
def test_simclr_and_byol_of_nothing_found_keep_only_the_augmentation_term(objective):
    case = example(lost=range(6))
    terms = objective(case.online, case.target, drawn(case), case.negatives)
    assert terms.semantic.item() == 0
    without = objective(case.online, case.target, None, case.negatives)
    torch.testing.assert_close(4 * terms.total, without.total)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["ReLICv2", "SimCLR", "BYOL"])
def test_zero_positives_are_no_positives(objective):
    case = example(num_positives=0)
    terms = objective(case.online, case.target, drawn(case), case.negatives)
    without = objective(case.online, case.target, None, case.negatives)
    torch.testing.assert_close(tuple(terms), tuple(without))


@pytest.mark.parametrize("objective", [SimCLR(), BYOL(), ReLICv2(same_view=False)])
def test_one_view_alone_is_refused_where_pairs_of_different_views_count(objective):
    with pytest.raises(ValueError, match="one view"):
        objective(unit(1, 3, 4), unit(1, 3, 4))


def test_relicv2_of_a_single_view_contrasts_and_has_no_invariance():
    online, target = unit(1, 2, 4, seed=1), unit(1, 2, 4, seed=2)
    terms = ReLICv2()(online, target, None, torch.tensor([[1], [0]]))
    logits = (online[0] @ target[0].T) / 0.2
    torch.testing.assert_close(terms.augmentation, F.cross_entropy(logits, torch.arange(2)))
    torch.testing.assert_close(terms.total, 0.3 * terms.augmentation)


def units(*shapes):
    rng = torch.Generator().manual_seed(0)
    return [torch.nn.functional.normalize(torch.randn(*shape, generator=rng), dim=-1) for shape in shapes]


@pytest.mark.parametrize("objective", [ReLICv2, SimCLR, BYOL])
def test_alpha_0_with_positives_is_the_base_objective_to_the_last_bit(objective):
    online, target, drawn = units((3, 5, 4), (2, 5, 4), (3, 2, 2, 5, 4))
    positives = Positives(drawn, torch.ones(5, dtype=torch.bool))
    assert objective(alpha=0.0)(online, target, positives).total == objective()(online, target).total


def test_target_projections_of_small_views_count_only_where_they_are_asked_for():
    online, target, small = units((3, 5, 4), (2, 5, 4), (1, 5, 4))
    for partner in ("standin", "none"):
        objective = ReLICv2(small_partner=partner)
        alone = objective(online, target).total
        assert objective(online, target, small_target_SBD=small).total == alone
    assert ReLICv2(small_partner="run_target")(online, target, small_target_SBD=small).total != alone


@pytest.mark.parametrize("objective", [ReLICv2, SimCLR, BYOL])
def test_trust_weighs_the_semantic_terms_of_each_image_and_no_others(objective):
    """Full trust is none at all; the terms of single images add up; half of the trust is half of the term."""
    case, loss = example(), objective()

    def terms(trust_B):
        return loss(case.online, case.target, drawn(case)._replace(trust_B=trust_B), case.negatives)

    plain, full = terms(None), terms(torch.ones(case.images))
    torch.testing.assert_close(full, plain)
    single = [terms(F.one_hot(torch.tensor(m), case.images).float()) for m in range(case.images)]
    torch.testing.assert_close(sum(one.semantic for one in single), plain.semantic)
    torch.testing.assert_close(
        sum(one.invariance_semantic for one in single), plain.invariance_semantic, check_dtype=False
    )
    half = terms(torch.full((case.images,), 0.5))
    torch.testing.assert_close(half.semantic, plain.semantic / 2)
    torch.testing.assert_close(half.augmentation, plain.augmentation)
