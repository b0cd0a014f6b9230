import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from semppl.method.pseudo_labels import Votes, _marked, majority, nearest, semantic_labels, trust, vote
from semppl.method.pseudo_labels import mode as most_frequent
from semppl.method.queue import LabelledQueue


def queue_of(embeddings_VCD, labels, *, classes=8, capacity=None):
    views, num_rows, dim = embeddings_VCD.shape
    queue = LabelledQueue(views, capacity or num_rows, dim, classes, initial_labels="none")
    queue.push_(embeddings_VCD, torch.tensor(labels))
    return queue


def one_view(predictions, entries, labels, **options):
    """The vote on hand-made vectors of a single view."""
    return vote(torch.tensor([predictions]), queue_of(torch.tensor([entries]), labels), **options)


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


def mode(labels):
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def ballots_by_loops(predictions_VBD, entries_VCD, labels, k, pairs):
    predictions, entries = predictions_VBD.tolist(), entries_VCD.tolist()
    every = range(len(entries))
    choices = {
        "all": [(i, j) for i in every for j in every],
        "same": [(i, i) for i in every],
        "one": [(0, 0)],
    }
    ballots = []
    for i, j in choices[pairs]:
        ballots.append([])
        for query in predictions[j]:
            ranked = sorted(range(len(labels)), key=lambda c: -cosine(query, entries[i][c]))
            ballots[-1].append(mode(labels[c] for c in ranked[:k]))
    return ballots


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("pairs", ["all", "same", "one"])
def test_a_vote_is_the_mode_of_a_double_loop_over_queues_and_views(pairs, k):
    rng = torch.Generator().manual_seed(k)
    entries = torch.randn(3, 17, 4, generator=rng)
    predictions = torch.randn(3, 40, 4, generator=rng)
    labels = torch.randint(4, (17,), generator=rng).tolist()
    expected = ballots_by_loops(predictions, entries, labels, k, pairs)
    votes = vote(predictions, queue_of(entries, labels, capacity=23), k=k, pairs=pairs)
    assert votes.ballots_JB.tolist() == expected
    columns = list(zip(*expected, strict=True))
    assert votes.labels_B.tolist() == [mode(column) for column in columns]
    assert votes.counts_B.tolist() == [max(Counter(column).values()) for column in columns]
    tops = [Counter(column).most_common(2) for column in columns]
    assert votes.tied_B.tolist() == [len(top) == 2 and top[0][1] == top[1][1] for top in tops]


def two_sided_election(wishes, extra):
    """Ballot (queue i, view j) goes to class 5 where wishes[i][j], else to class 2.

    View j predicts the axis j; slot 0 of queue i sums the axes of its wishes, slot 1 the others. `extra` is a
    component outside all axes: it lowers the cosines of (class 5, class 2).
    """
    entries = torch.zeros(4, 2, 5)
    for i, row in enumerate(wishes):
        for j, wish in enumerate(row):
            entries[i, 0 if wish else 1, j] = 1.0
        entries[i, :, 4] = torch.tensor(extra)
    return torch.eye(5)[:4, None], queue_of(entries, [5, 2])


NINE = [[1, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]]
EIGHT = [[1, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 0, 1]]


@pytest.mark.parametrize("tie", ["lowest", "similarity"])
def test_nine_votes_beat_seven_however_similar_the_seven_are(tie):
    votes = vote(*two_sided_election(NINE, extra=[9.0, 0.0]), tie=tie)
    assert votes.ballots_JB.flatten().tolist() == [5 if wish else 2 for row in NINE for wish in row]
    assert (votes.labels_B.item(), votes.counts_B.item(), votes.tied_B.item()) == (5, 9, False)


@pytest.mark.parametrize(
    ("tie", "extra", "winner"),
    [
        ("lowest", [0.0, 9.0], 2),
        ("lowest", [9.0, 0.0], 2),
        ("similarity", [0.0, 9.0], 5),
        ("similarity", [9.0, 0.0], 2),
    ],
)
def test_eight_votes_against_eight_are_a_tied_vote_decided_as_asked(tie, extra, winner):
    votes = vote(*two_sided_election(EIGHT, extra=extra), tie=tie)
    assert (votes.labels_B.item(), votes.counts_B.item(), votes.tied_B.item()) == (winner, 8, True)


def test_ballots_come_in_the_order_queue_then_view():
    wishes = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0]]
    votes = vote(*two_sided_election(wishes, extra=[0.0, 0.0]))
    assert votes.ballots_JB.view(4, 4).tolist() == [[5 if wish else 2 for wish in row] for row in wishes]
    same = vote(*two_sided_election(wishes, extra=[0.0, 0.0]), pairs="same")
    assert same.ballots_JB.flatten().tolist() == [5, 5, 5, 2]
    one = vote(*two_sided_election(wishes, extra=[0.0, 0.0]), pairs="one")
    assert one.ballots_JB.tolist() == [[5]]
    assert one.counts_B.tolist() == [1]


@pytest.mark.parametrize(("tie", "winner"), [("lowest", 1), ("similarity", 3)])
def test_a_tie_inside_a_ballot_is_decided_as_asked(tie, winner):
    votes = one_view([[1.0, 0.0]], [[0.9, 0.1], [0.5, 0.5], [-1.0, 0.0]], [3, 1, 0], k=2, tie=tie)
    assert votes.ballots_JB.tolist() == [[winner]]
    assert votes.labels_B.tolist() == [winner]


def test_equal_similarities_leave_the_tie_to_the_lowest_class():
    votes = one_view([[1.0, 0.0]], [[0.6, 0.8], [0.6, -0.8]], [4, 3], k=2, tie="similarity")
    assert votes.labels_B.tolist() == [3]


def test_neighbours_of_the_same_class_outvote_a_nearer_one():
    votes = one_view([[1.0, 0.0]], [[1.0, 0.0], [0.7, 0.7], [0.7, -0.7]], [0, 6, 6], k=3, tie="similarity")
    assert votes.labels_B.tolist() == [6]


@pytest.mark.parametrize("tie", ["lowest", "similarity"])
@pytest.mark.parametrize("k", [1, 3])
def test_an_empty_queue_gives_no_label_and_no_votes(k, tie):
    queue = LabelledQueue(2, 5, 3, 4, initial_labels="none")
    votes = vote(torch.randn(2, 6, 3), queue, k=k, tie=tie)
    assert votes.labels_B.tolist() == [-1] * 6
    assert votes.counts_B.tolist() == [0] * 6
    assert votes.ballots_JB.tolist() == [[-1] * 6] * 4
    assert not votes.tied_B.any()


@pytest.mark.parametrize("tie", ["lowest", "similarity"])
@pytest.mark.parametrize("k", [4, 5, 9])
def test_fewer_entries_than_k_all_vote_and_empty_slots_do_not(k, tie):
    queue = queue_of(torch.tensor([[[1.0, 0.0], [-0.9, 0.1], [-0.9, 0.2]]]), [0, 7, 7], capacity=6)
    votes = vote(torch.tensor([[[1.0, 0.0]]]), queue, k=k, tie=tie)
    assert votes.labels_B.tolist() == [7]
    assert votes.counts_B.tolist() == [1]


@pytest.mark.parametrize("tie", ["lowest", "similarity"])
def test_a_class_absent_from_the_queue_never_wins(tie):
    rng = torch.Generator().manual_seed(0)
    queue = queue_of(torch.randn(2, 6, 3, generator=rng), [1, 4, 4, 1, 4, 1], capacity=9)
    votes = vote(torch.randn(2, 50, 3, generator=rng), queue, k=3, tie=tie)
    assert set(votes.ballots_JB.flatten().tolist()) == {1, 4}
    assert set(votes.labels_B.tolist()) == {1, 4}


@pytest.mark.parametrize(("k", "tie", "winner"), [(1, "lowest", 3), (2, "similarity", 3), (2, "lowest", 2)])
def test_with_all_similarities_negative_the_nearest_still_wins(k, tie, winner):
    """Neither an empty slot (cosine 0) nor a class without neighbours (sum 0) may beat a negative cosine."""
    queue = queue_of(torch.tensor([[[-0.2, 1.0], [-1.0, 0.1], [-1.0, 0.0]]]), [3, 2, 6], capacity=5)
    votes = vote(torch.tensor([[[1.0, 0.0]]]), queue, k=k, tie=tie)
    assert votes.labels_B.tolist() == [winner]


def test_a_tied_vote_of_negative_similarities_goes_to_the_less_negative():
    """Queue 0 elects class 1 with cosine −0.8, queue 1 class 4 with −0.6; class 0 has no vote and sum 0."""
    queue = queue_of(torch.tensor([[[-0.8, 0.6], [-1.0, 0.0]], [[-1.0, 0.0], [-0.6, 0.8]]]), [1, 4])
    votes = vote(torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]]), queue, pairs="same", tie="similarity")
    assert votes.ballots_JB.flatten().tolist() == [1, 4]
    assert votes.labels_B.tolist() == [4]
    assert votes.tied_B.tolist() == [True]


def test_a_batch_of_one_votes_as_it_does_among_others():
    rng = torch.Generator().manual_seed(3)
    queue = queue_of(torch.randn(2, 9, 3, generator=rng), [0, 1, 2, 0, 1, 2, 0, 1, 2])
    predictions = torch.randn(2, 7, 3, generator=rng)
    together = vote(predictions, queue, k=3)
    alone = [vote(predictions[:, [m]], queue, k=3) for m in range(7)]
    assert torch.equal(torch.cat([votes.ballots_JB for votes in alone], dim=1), together.ballots_JB)
    assert torch.equal(torch.cat([votes.labels_B for votes in alone]), together.labels_B)
    assert torch.equal(torch.cat([votes.counts_B for votes in alone]), together.counts_B)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([1, 3]), st.sampled_from(["lowest", "similarity"]))
def test_the_scale_of_embeddings_changes_no_vote(seed, k, tie):
    rng = torch.Generator().manual_seed(seed)
    entries, predictions = torch.randn(2, 8, 4, generator=rng), torch.randn(2, 6, 4, generator=rng)
    labels = torch.randint(3, (8,), generator=rng).tolist()
    scales = 10 ** (4 * torch.rand(2, 14, 1, generator=rng) - 2)
    plain = vote(predictions, queue_of(entries, labels), k=k, tie=tie)
    scaled = vote(predictions * scales[:, :6], queue_of(entries * scales[:, 6:], labels), k=k, tie=tie)
    assert torch.equal(plain.ballots_JB, scaled.ballots_JB)
    assert torch.equal(plain.labels_B, scaled.labels_B)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]))
def test_neither_the_order_of_slots_nor_a_far_entry_changes_a_vote(seed, k):
    rng = torch.Generator().manual_seed(seed)
    entries, predictions = torch.rand(2, 7, 3, generator=rng), torch.rand(2, 5, 3, generator=rng)
    labels = torch.randint(1, 4, (7,), generator=rng)
    order = torch.randperm(7, generator=rng)
    far = torch.cat([entries[:, order], -torch.ones(2, 1, 3)], dim=1)
    plain = vote(predictions, queue_of(entries, labels.tolist()), k=k)
    changed = vote(predictions, queue_of(far, [*labels[order].tolist(), 0]), k=k)
    assert torch.equal(plain.ballots_JB, changed.ballots_JB)


@pytest.mark.parametrize("k", [1, 3, 23, 30])
@pytest.mark.parametrize("chunk", [1, 4, 22, 23, 100])
def test_nearest_in_chunks_equals_one_topk_of_all_cosines(k, chunk):
    rng = torch.Generator().manual_seed(k)
    keys = torch.randn(23, 5, generator=rng)
    queries = F.normalize(torch.randn(11, 5, generator=rng), dim=-1)
    labels = torch.randint(-1, 6, (23,), generator=rng)
    valid = labels != -1
    cosines = queries @ (keys[valid] / keys[valid].norm(dim=1, keepdim=True)).T
    found = min(k, int(valid.sum()))
    expected, columns = cosines.topk(found, dim=1)
    similarity, label = nearest(queries, keys, labels, k, chunk=chunk)
    torch.testing.assert_close(similarity[:, :found], expected)
    assert torch.equal(label[:, :found], labels[valid][columns])
    assert (similarity[:, found:] == -torch.inf).all()
    assert (label[:, found:] == -1).all()


def test_nearest_never_holds_the_whole_matrix_of_similarities():
    queries, keys, labels = torch.randn(64, 2), torch.randn(50_000, 2), torch.zeros(50_000, dtype=torch.long)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        nearest(queries, keys, labels, 1)
    largest = max(event.self_cpu_memory_usage for event in profiled.events())
    assert 64 * 1000 <= largest < 64 * 50_000


def test_a_majority_counts_only_labels_and_averages_the_similarity_of_its_own_votes():
    labels = torch.tensor([[2, 2, 0, -1], [-1, -1, -1, -1], [3, 1, 1, 3]])
    similarity = torch.tensor([[0.5, 0.1, 0.9, 0.7], [0.1, 0.1, 0.1, 0.1], [0.9, 0.3, 0.5, 0.7]])
    lowest = majority(labels, similarity, "lowest")
    assert lowest.labels_R.tolist() == [2, -1, 1]
    assert lowest.counts_R.tolist() == [2, 0, 2]
    assert lowest.tied_R.tolist() == [False, False, True]
    torch.testing.assert_close(lowest.similarity_R[[0, 2]], torch.tensor([0.3, 0.4]))
    similar = majority(labels, similarity, "similarity")
    assert similar.labels_R.tolist() == [2, -1, 3]
    torch.testing.assert_close(similar.similarity_R[[0, 2]], torch.tensor([0.3, 0.8]))


def test_a_vote_is_tied_when_two_classes_share_the_top_count():
    ballots = [[0, 0, 1, 0], [1, 2, -1, -1], [1, -1, -1, -1], [-1, -1, -1, -1], [4, 4, 2, 2], [3, 3, 1, 2]]
    ballots_JB = torch.tensor(ballots).T
    votes = Votes(torch.zeros(6, dtype=torch.long), torch.zeros(6, dtype=torch.long), ballots_JB)
    assert votes.tied_B.tolist() == [False, True, False, False, True, False]


@pytest.mark.parametrize(
    ("minimum_votes", "expected"),
    [(0, [2, 1, 4, -1]), (8, [2, 1, 4, -1]), (9, [2, 1, -1, -1]), (10, [2, -1, -1, -1])],
)
def test_semantic_labels_are_given_labels_and_else_trusted_votes(minimum_votes, expected):
    votes = Votes(torch.tensor([0, 1, 4, -1]), torch.tensor([3, 9, 8, 0]), torch.empty(0, 4))
    given_B = torch.tensor([2, -1, -1, -1])
    assert semantic_labels(given_B, votes, minimum_votes).tolist() == expected
    assert given_B.tolist() == [2, -1, -1, -1]


def test_with_all_labelled_no_vote_matters_and_with_none_labelled_every_vote_does():
    votes = Votes(torch.tensor([3, 2, 1]), torch.tensor([16, 16, 16]), torch.empty(0, 3))
    assert semantic_labels(torch.tensor([0, 1, 2]), votes, 17).tolist() == [0, 1, 2]
    assert semantic_labels(torch.tensor([0, 1, 2]), votes).tolist() == [0, 1, 2]
    assert semantic_labels(torch.tensor([-1, -1, -1]), votes).tolist() == [3, 2, 1]


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("pairs", "some"), ("tie", "random")])
def test_an_unknown_way_to_vote_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        vote(torch.ones(2, 1, 3), LabelledQueue(2, 4, 3, 2), **{name: value})


def test_predictions_of_another_number_of_views_are_refused():
    with pytest.raises(ValueError, match="3 views"):
        vote(torch.ones(3, 1, 3), LabelledQueue(2, 4, 3, 2))


def test_nobody_asks_and_nobody_is_answered():
    votes = vote(torch.zeros(2, 0, 3), LabelledQueue(2, 4, 3, 2))
    assert votes.labels_B.tolist() == []
    assert votes.ballots_JB.shape == (4, 0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(-1, 3), min_size=5, max_size=5), min_size=1, max_size=8))
def test_the_mode_is_counted_by_hand(rows):
    labels, counts = most_frequent(torch.tensor(rows))
    for row, label, count in zip(rows, labels.tolist(), counts.tolist(), strict=True):
        votes = [vote for vote in row if vote != -1]
        most = max((votes.count(vote) for vote in votes), default=0)
        assert count == most
        assert label == min((vote for vote in votes if votes.count(vote) == most), default=-1)


def test_the_mark_that_a_gpu_searches_with_hides_keys_without_a_label():
    rng = torch.Generator().manual_seed(0)
    queries, keys = (F.normalize(torch.randn(n, 16, generator=rng), dim=-1) for n in (9, 40))
    labels = torch.randint(-1, 4, (40,), generator=rng)
    marked = _marked(keys, torch.where(labels == -1, -4.0, 0.0))
    similarity = _marked(queries, 1.0).float() @ marked.float().T
    assert marked.shape == (40, 24)
    valid = labels != -1
    torch.testing.assert_close(similarity[:, valid], queries @ keys[valid].T, atol=1e-3, rtol=0)
    assert similarity[:, ~valid].max() < -2.9
    expected, _ = nearest(queries, keys, labels, 1)
    torch.testing.assert_close(similarity.amax(1), expected[:, 0], atol=1e-3, rtol=0)


def test_trust_is_the_share_of_the_ballots_to_a_power_and_given_labels_have_it_all():
    ballots_JB = torch.tensor([[1, 1, 2, 0], [1, 1, 2, 1], [1, 0, 2, 2], [1, 2, 0, 3]])
    votes = Votes(torch.tensor([1, 1, 2, 0]), torch.tensor([4, 2, 3, 1]), ballots_JB)
    given_B = torch.tensor([-1, -1, -1, 5])
    assert trust(given_B, votes, 1.0).tolist() == [1.0, 0.5, 0.75, 1.0]
    assert trust(given_B, votes, 2.0).tolist() == [1.0, 0.25, 0.5625, 1.0]
    assert trust(given_B, votes, 0.0).tolist() == [1.0] * 4
    nobody = votes._replace(counts_B=torch.zeros(4, dtype=torch.long))
    assert trust(given_B, nobody, 2.0).tolist() == [0.0, 0.0, 0.0, 1.0]
