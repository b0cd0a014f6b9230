import pytest
import torch
from tests.train.world import in_ranks
from torch import nn

import semppl.train.monitor as monitor
from semppl.core.batch import Batch
from semppl.core.hidden import HiddenLabels
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.method.objective import Terms
from semppl.method.pseudo_labels import Votes
from semppl.train.monitor import Probe, Tally, effective_rank, evenly, leave_one_out, spread
from semppl.train.ranks import ALONE
from semppl.train.step import Outcome

CPU = torch.device("cpu")


def outcome(total, ballots):
    """Votes of ballots given by hand, one column for each image."""
    ballots = torch.tensor(ballots)
    labels, counts = (
        ballots.mode(0).values,
        torch.tensor([int((c == c.mode().values).sum()) for c in ballots.T]),
    )
    terms = Terms(*(torch.tensor(float(total + i)) for i in range(5)))
    return Outcome(terms, Votes(labels, counts, ballots))


def batch(labels, index):
    return Batch(crops=(), labels_B=torch.tensor(labels), index_B=torch.tensor(index))


def test_a_tally_by_hand():
    tally = Tally(HiddenLabels(torch.tensor([0, 1, 1, 0])), num_ballots=2, device=CPU)
    tally.add_(outcome(1, [[0, 1, 0], [0, 0, 0]]), batch([-1, -1, 0], [0, 1, 3]))
    tally.add_(outcome(3, [[1, 1, 1], [1, 1, 1]]), batch([-1, -1, -1], [0, 1, 2]))
    row = tally.flush_()
    assert row["loss/total"] == 2.0
    assert row["loss/invariance_semantic"] == 6.0
    assert row["pseudo/votes"] == [0, 1, 4]
    assert row["pseudo/tie_rate"] == pytest.approx(1 / 5)
    assert row["pseudo/right_by_votes"] == [0, 0, 3]
    assert row["pseudo/known_by_votes"] == [0, 1, 4]
    assert row["pseudo/accuracy"] == pytest.approx(3 / 5)
    assert row["pseudo/mean_share"] == pytest.approx((0.5 + 4) / 5)


def test_votes_of_many_steps_are_counted_as_they_come(monkeypatch):
    monkeypatch.setattr(monitor, "MANY", 6)
    tally = Tally(HiddenLabels(torch.tensor([0, 1, 1, 0])), num_ballots=2, device=CPU)
    for total in range(5):
        tally.add_(outcome(total, [[0, 1, 0], [0, 0, 0]]), batch([-1, -1, 0], [0, 1, 3]))
        assert len(tally._votes) == (total + 1) % 2
    row = tally.flush_()
    assert row["loss/total"] == 2.0
    assert row["pseudo/votes"] == [0, 5, 5]
    assert row["pseudo/right_by_votes"] == [0, 0, 5]


def test_flushing_starts_again():
    tally = Tally(None, num_ballots=2, device=CPU)
    tally.add_(outcome(1, [[0], [0]]), batch([-1], [0]))
    tally.flush_()
    assert tally.flush_() == {}


def test_without_hidden_truth_there_is_no_accuracy_and_without_votes_no_share():
    tally = Tally(None, num_ballots=1, device=CPU)
    tally.add_(outcome(1, [[0]]), batch([-1], [0]))
    assert "pseudo/accuracy" not in tally.flush_()
    tally.add_(Outcome(outcome(1, [[0]]).terms, None), batch([-1], [0]))
    assert set(tally.flush_()) == {f"loss/{name}" for name in Terms._fields}


def test_leave_one_out_never_asks_the_image_itself():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0], [0.9, 0.1]])
    assert leave_one_out(features, torch.tensor([0, 0, 1, 1, 0]), k=1) == 1.0
    assert leave_one_out(features[[0, 2, 1, 3]], torch.tensor([0, 0, 1, 1]), k=1) == 0.0


def test_the_only_image_of_a_class_is_not_asked():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]])
    assert leave_one_out(features, torch.tensor([0, 0, 1]), k=1) == 1.0


def test_a_sample_is_spread_over_the_whole():
    assert evenly(torch.arange(5), 9).tolist() == [0, 1, 2, 3, 4]
    assert evenly(torch.arange(101), 5).tolist() == [0, 25, 50, 75, 100]
    assert evenly(torch.arange(7), 1).tolist() == [0]


@pytest.mark.parametrize("more", [*range(1, 50), 9_999, 20_000, 17_000_000])
def test_no_place_is_taken_twice_and_both_ends_are(more):
    places = evenly(torch.arange(20_000 + more), 20_000)
    assert (places[0], places[-1]) == (0, 19_999 + more)
    assert (places.diff() > 0).all()


def test_rank_and_spread_tell_collapse_from_health():
    even = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
    assert effective_rank(even) > 7.5
    assert spread(even) == pytest.approx(1.0, abs=0.05)
    collapsed = torch.ones(500, 8)
    assert effective_rank(collapsed) == pytest.approx(1.0, abs=0.01)
    assert spread(collapsed) == pytest.approx(0.0, abs=1e-5)
    line = torch.randn(500, 1, generator=torch.Generator().manual_seed(0)) * torch.ones(1, 8)
    assert effective_rank(line) == pytest.approx(1.0, abs=0.01)


def test_a_probe_sees_a_perfect_encoder_and_restores_its_mode(npz):
    data = load_dataset(Request(source=str(npz)))
    mean, std = data.statistics()
    probe = Probe(data, mean, std, 8)

    class Rows(nn.Module):
        def forward(self, x):
            return x.mean((1, 3))

    encoder = Rows().train()
    row = probe(encoder)
    assert row["knn/leave_one_out"] == 1.0
    assert encoder.training


def probed(ranks, device, npz, most):
    """Ranks whose encoders differ in their statistics: those of the main one count."""
    data = load_dataset(Request(source=npz))
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192), nn.Linear(192, 6))
    encoder[1].running_mean.fill_(0.1 * ranks.share.rank)
    probe = Probe(data, torch.zeros(3), torch.ones(3), 8, most=most, ranks=ranks)
    return probe(encoder), len(probe._sample)


@pytest.mark.parametrize("most", [2048, 2])
def test_ranks_share_the_images_of_a_probe_and_all_have_its_numbers(npz, most):
    alone, whole = probed(ALONE, CPU, str(npz), most)
    for numbers, looked_at in in_ranks(3, probed, str(npz), most):
        assert numbers == pytest.approx(alone)
        assert looked_at == (whole // 3 if most > 3 else whole)
