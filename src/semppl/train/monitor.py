"""Is it learning? Numbers of a run that need no test set.

Shapes: B images of a batch, J ballots, L labelled images, F features.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, final

import torch
from torch import Tensor, nn

from semppl.core.batch import Batch
from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset, evenly
from semppl.data.images import gather
from semppl.method.objective import Terms
from semppl.method.pseudo_labels import Votes, majority
from semppl.nets.heads import unit
from semppl.train.ranks import ALONE, Ranks
from semppl.train.step import Outcome
from semppl.views.whole import whole_crop, whole_view

# images whose votes are kept before they are counted
MANY: Final = 16_384


@final
class Tally:
    """What happened in the steps between two lines of metrics.

    A step only leaves its tensors here; they are counted together when a line is due, or when there are many,
    so that no step waits for a number and none pays for small operations.
    """

    def __init__(self, hidden: HiddenLabels | None, num_ballots: int, device: torch.device) -> None:
        self._hidden = None if hidden is None else hidden.to(device)
        self._groups, self._device = num_ballots + 1, device
        self._terms: list[Tensor] = []
        self._votes: list[tuple[Votes, Tensor, Tensor]] = []
        self._clear_()

    def _clear_(self) -> None:
        self._terms.clear()
        self._by_votes = torch.zeros(self._groups, dtype=torch.long, device=self._device)
        self._agreement = torch.zeros(self._groups, 2, dtype=torch.long, device=self._device)
        self._ties = torch.zeros((), dtype=torch.long, device=self._device)

    def add_(self, outcome: Outcome, batch: Batch) -> None:
        """Take one step down."""
        self._terms.append(torch.stack(list(outcome.terms)))
        if outcome.votes is not None:
            self._votes.append((outcome.votes, batch.labels_B, batch.index_B))
        if sum(len(labels_B) for _, labels_B, _ in self._votes) >= MANY:
            self._count_()

    def _count_(self) -> None:
        """Only unlabelled images count among the votes."""
        if not self._votes:
            return
        votes, labels, indices = zip(*self._votes, strict=True)
        index_B = torch.cat(indices)
        free_B = torch.cat(labels) == UNLABELLED
        group_B = torch.cat([vote.counts_B for vote in votes]).where(free_B, -1)
        labels_B = torch.cat([vote.labels_B for vote in votes])
        together = Votes(labels_B, group_B, torch.cat([vote.ballots_JB for vote in votes], dim=1))
        self._by_votes.index_add_(0, group_B.clamp(min=0), free_B.long())
        self._ties += (together.tied_B & free_B).sum()
        if self._hidden is not None:
            self._agreement += self._hidden.agreement(index_B, labels_B, group_B, self._groups)
        self._votes.clear()

    def flush_(self) -> dict[str, float | list[int]]:
        """Means and counts since the last call."""
        self._count_()
        row: dict[str, float | list[int]] = {}
        if self._terms:
            values = torch.stack(self._terms).mean(0).tolist()
            row |= {f"loss/{name}": value for name, value in zip(Terms._fields, values, strict=True)}
        asked = int(self._by_votes.sum())
        if asked:
            row["pseudo/votes"] = self._by_votes.tolist()
            row["pseudo/tie_rate"] = float(self._ties) / asked
            row["pseudo/mean_share"] = _mean_share(self._by_votes)
            right, known = self._agreement.sum(0).tolist()
            if known:
                row["pseudo/accuracy"] = right / known
                row["pseudo/right_by_votes"] = self._agreement[:, 0].tolist()
                row["pseudo/known_by_votes"] = self._agreement[:, 1].tolist()
        self._clear_()
        return row


def _mean_share(votes: Tensor) -> float:
    """Mean share of the ballots that the winner had."""
    count = torch.arange(len(votes), device=votes.device)
    return float((votes * count).sum() / votes.sum() / max(len(votes) - 1, 1))


@final
class Probe:
    """Looks at the features of the encoder: leave-one-out k-NN on the given labels, spread, rank.

    The k-NN asks for each labelled image what its neighbours among the *other* labelled images say, so the
    few labels are held out one at a time and none is set aside. Test images are not touched. Ranks share the
    images among them, and all have the numbers.
    """

    def __init__(
        self,
        dataset: Dataset,
        mean_3: Tensor,
        std_3: Tensor,
        size: int,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
        *,
        most: int = 2048,
        neighbours: int = 5,
        ranks: Ranks = ALONE,
    ) -> None:
        labelled_L = evenly(dataset.labelled_L, most)
        sample_N = evenly(torch.arange(len(dataset.labels_M)), most)
        self._labels_L = dataset.labels_M[labelled_L].to(mean_3.device)
        self._ranks, self._num_sample = ranks, len(sample_N)
        # too few to be shared: every rank looks at all of them
        self._sharing = ranks if min(len(labelled_L), len(sample_N)) >= ranks.world else ALONE
        whole = partial(whole_crop, size)
        mine = [index_N[self._sharing.rows(len(index_N)).slice] for index_N in (labelled_L, sample_N)]
        self._labelled, self._sample = (
            gather(dataset.images[index_n], whole).to(mean_3.device) for index_n in mine
        )
        self._mean_3, self._std_3, self._neighbours = mean_3, std_3, neighbours
        self._autocast = autocast

    @torch.no_grad()
    def __call__(self, encoder: nn.Module) -> dict[str, float]:
        """The numbers; the encoder comes back in the mode it came in."""
        training = encoder.training
        encoder.eval()
        self._ranks.copy_from_main_(encoder.buffers())  # alike, unless ranks keep their own statistics
        sample = self._features(encoder, self._sample, self._num_sample)
        row = {"features/std": spread(sample), "features/effective_rank": effective_rank(sample)}
        counts_L = torch.bincount(self._labels_L)[self._labels_L] if len(self._labels_L) else self._labels_L
        if (counts_L > 1).any():
            k = min(self._neighbours, int(counts_L[counts_L > 1].min()) - 1)
            row["knn/leave_one_out"] = leave_one_out(
                self._features(encoder, self._labelled, len(self._labels_L)), self._labels_L, k
            )
        encoder.train(training)
        return row

    def _features(self, encoder: nn.Module, mine: Tensor, total: int) -> Tensor:
        views = (whole_view(part, self._mean_3, self._std_3) for part in mine.split(256))
        with self._autocast():
            features = torch.cat([encoder(view) for view in views]).float()
        return self._sharing.gather(features, total, dim=0)


def leave_one_out(features_LF: Tensor, labels_L: Tensor, k: int) -> float:
    """Share of images whose k nearest others vote for their label; the only one of a class is not asked."""
    features_LF = unit(features_LF)
    similarity_LL = (features_LF @ features_LF.T).fill_diagonal_(-torch.inf)
    similarity_LK, near_LK = similarity_LL.topk(min(k, len(labels_L) - 1), dim=1)
    answer_L = majority(labels_L[near_LK], similarity_LK, "similarity").labels_R
    asked_L = torch.bincount(labels_L)[labels_L] > 1
    return float((answer_L == labels_L)[asked_L].float().mean())


def spread(features_NF: Tensor) -> float:
    """Mean standard deviation of a dimension of unit features, times √F: 1 is even, 0 is collapse."""
    return float(unit(features_NF).std(0).mean() * features_NF.shape[1] ** 0.5)


def effective_rank(features_NF: Tensor) -> float:
    """exp of the entropy of the normalised singular values (RankMe): how many dimensions are in use."""
    # eigenvalues of the smaller Gram matrix: on a GPU far quicker than singular values
    features_NF = features_NF.double()
    wide = features_NF.shape[0] < features_NF.shape[1]
    gram = features_NF @ features_NF.T if wide else features_NF.T @ features_NF
    values = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    share = values / values.sum().clamp(min=1e-12) + 1e-12
    return float(torch.exp(-(share * share.log()).sum()))
