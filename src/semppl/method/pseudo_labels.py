"""Pseudo-labels by a vote of nearest neighbours (paper, section 2; listing, `knn` and `mode`).

Shapes: V large views, B images, C queue capacity, D dims, J ballots, K neighbours, R rows of anything.
"""

from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.core.labels import UNLABELLED
from semppl.method.queue import LabelledQueue

# cosines held at a time: 50 MB of float32, which fits into the cache of a large GPU
_COSINES: Final = 12 * 2**20
# chunks whose best neighbours wait to be merged
_TOGETHER: Final = 16
# added to the cosine of a key that must not be found
_OUT_OF_REACH: Final = -4.0

Pairs = Literal["all", "same", "one"]
Tie = Literal["lowest", "similarity"]


class Votes(NamedTuple):
    """The outcome: UNLABELLED and no votes where no ballot was valid."""

    labels_B: Tensor
    counts_B: Tensor
    ballots_JB: Tensor

    @property
    def tied_B(self) -> Tensor:
        """More than one class has the winning number of votes."""
        return tied(self.ballots_JB.T)


@torch.no_grad()
def vote(
    predictions_VBD: Tensor,
    queue: LabelledQueue,
    k: int = 1,
    pairs: Pairs = "all",
    tie: Tie = "lowest",
) -> Votes:
    """The mode of the ballots, each the mode of the k nearest labels of one (queue i, prediction of view j).

    `pairs`: "all" V×V ballots in the order (i, j), "same" i = j only, "one" the first view alone (view voting
    off). A tie goes to the lowest class, or to the larger sum of cosines and only then to the lowest class.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if pairs not in ("all", "same", "one") or tie not in ("lowest", "similarity"):
        raise ValueError(f"unknown pairs {pairs!r} or tie {tie!r}")
    if len(predictions_VBD) != queue.views:
        raise ValueError(f"{len(predictions_VBD)} views of predictions for a queue of {queue.views} views")
    num_images = predictions_VBD.shape[1]
    queries_VBD = F.normalize(predictions_VBD.detach().to(queue.embeddings_VCD.dtype), dim=-1)
    ballots, similarities = [], []
    for i in range(queue.views if pairs != "one" else 1):
        queries_RD = queries_VBD.flatten(0, 1) if pairs == "all" else queries_VBD[i]
        similarity_RK, labels_RK = nearest(
            queries_RD, queue.embeddings_VCD[i], queue.labels_C, k, rounded=True
        )
        labels_R, similarity_R = labels_RK[:, 0], similarity_RK[:, 0]
        if k > 1:
            labels_R, _, similarity_R, _ = majority(labels_RK, similarity_RK, tie)
        num_ballots = queue.views if pairs == "all" else 1
        ballots.append(labels_R.view(num_ballots, num_images))
        similarities.append(similarity_R.view(num_ballots, num_images))
    ballots_JB = torch.cat(ballots)
    if tie == "lowest":
        return Votes(*mode(ballots_JB.T), ballots_JB)
    winner = majority(ballots_JB.T, torch.cat(similarities).T, tie)
    return Votes(winner.labels_R, winner.counts_R, ballots_JB)


def nearest(
    queries_RD: Tensor,
    keys_CD: Tensor,
    labels_C: Tensor,
    k: int,
    *,
    chunk: int | None = None,
    rounded: bool = False,
) -> tuple[Tensor, Tensor]:
    """Exact k nearest keys by cosine, for queries of unit length: their (similarity, label), best first.

    Keys labelled UNLABELLED are never found; missing neighbours have similarity −inf and label UNLABELLED.
    The keys are read in chunks and the best k kept, so about 50 MB of cosines are held and never R×C of them.
    With `rounded`, a GPU reads both sides in float16 and adds up in float32: neighbours whose cosines differ
    by less than about 10⁻⁴ may change places (`semppl bench` measures how often a label changes).
    """
    num_queries = len(queries_RD)
    chunk = chunk or min(max(_COSINES // max(num_queries, 1), 256), 12_288)
    valid_C = labels_C != UNLABELLED
    rounded = rounded and queries_RD.device.type == "cuda"
    if rounded:
        queries_RD = _marked(queries_RD, 1.0)
        keys_CD = _marked(F.normalize(keys_CD, dim=-1), torch.where(valid_C, 0.0, _OUT_OF_REACH))
    tops, columns = [], []
    for start in range(0, len(keys_CD), chunk):
        keys, valid = keys_CD[start : start + chunk], valid_C[start : start + chunk]
        if rounded:
            similarity = torch.mm(queries_RD, keys.T, out_dtype=torch.float32)
        else:
            similarity = (queries_RD @ F.normalize(keys, dim=-1).T).masked_fill_(~valid, -torch.inf)
        top, column = _best(similarity, min(k, len(keys)))
        tops.append(top)
        columns.append(column + start if start else column)
        if len(tops) == _TOGETHER:
            tops, columns = ([part] for part in _merged(tops, columns, k))
    best_RK, column_RK = _merged(tops, columns, k)
    label_RK = labels_C[column_RK]
    best_RK = best_RK.masked_fill(label_RK == UNLABELLED, -torch.inf)
    if missing := k - best_RK.shape[1]:
        best_RK = F.pad(best_RK, (0, missing), value=-torch.inf)
        label_RK = F.pad(label_RK, (0, missing), value=UNLABELLED)
    return best_RK, label_RK


def _merged(tops: list[Tensor], columns: list[Tensor], k: int) -> tuple[Tensor, Tensor]:
    """The best k of several chunks."""
    if len(tops) == 1:
        return tops[0], columns[0]
    together_RT = torch.cat(tops, dim=1)
    best_RK, position_RK = _best(together_RT, min(k, together_RT.shape[1]))
    return best_RK, torch.cat(columns, dim=1).gather(1, position_RK)


def _best(similarity_RC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row and their columns."""
    best_RK, column_RK = similarity_RC.max(1, keepdim=True) if k == 1 else similarity_RC.topk(k, dim=1)
    return best_RK, column_RK


def _marked(vectors_RD: Tensor, mark: Tensor | float) -> Tensor:
    """In float16 with eight more dimensions, of which the first says how far a key is out of reach.

    So the product itself hides keys without a label, and rows stay aligned to 16 bytes.
    """
    num_rows, dim = vectors_RD.shape
    marked = torch.zeros(num_rows, dim + 8, dtype=torch.half, device=vectors_RD.device)
    marked[:, :dim] = vectors_RD
    marked[:, dim] = mark
    return marked


def mode(labels_RK: Tensor) -> tuple[Tensor, Tensor]:
    """The most frequent label of each row and its votes; of several the lowest. UNLABELLED does not vote."""
    valid_RK, counts_RK = _ballots(labels_RK)
    top_R1 = counts_RK.amax(1, keepdim=True)
    return _lowest(labels_RK, valid_RK & (counts_RK == top_R1)), top_R1.squeeze(1)


def tied(labels_RK: Tensor) -> Tensor:
    """Whether more than one label of a row has the most votes."""
    valid_RK, counts_RK = _ballots(labels_RK)
    leads_RK = valid_RK & (counts_RK == counts_RK.amax(1, keepdim=True))
    return _lowest(labels_RK, leads_RK) != _highest(labels_RK, leads_RK)


def _ballots(labels_RK: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries vote, and how many entries of its row each agrees with, itself included."""
    valid_RK = labels_RK != UNLABELLED
    return valid_RK, (labels_RK[:, :, None] == labels_RK[:, None, :]).sum(2).where(valid_RK, 0)


class Majority(NamedTuple):
    """The mode of each row, the votes for it, their mean similarity, and whether it was tied."""

    labels_R: Tensor
    counts_R: Tensor
    similarity_R: Tensor
    tied_R: Tensor


def majority(labels_RK: Tensor, similarity_RK: Tensor, tie: Tie) -> Majority:
    """The mode with its similarity; UNLABELLED does not vote, and wins only where nobody votes."""
    valid_RK, counts_RK = _ballots(labels_RK)
    same_RKK = labels_RK[:, :, None] == labels_RK[:, None, :]
    top_R1 = counts_RK.amax(1, keepdim=True)
    leads_RK = valid_RK & (counts_RK == top_R1)
    sums_RK = same_RKK.to(similarity_RK).mul(similarity_RK.where(valid_RK, 0)[:, None, :]).sum(2)
    tied_R = _lowest(labels_RK, leads_RK) != _highest(labels_RK, leads_RK)
    if tie == "similarity":
        sums_RK = sums_RK.masked_fill(~leads_RK, -torch.inf)
        leads_RK = leads_RK & (sums_RK == sums_RK.amax(1, keepdim=True))
    labels_R = _lowest(labels_RK, leads_RK)
    chosen_R1 = (leads_RK & (labels_RK == labels_R[:, None])).to(torch.uint8).argmax(1, keepdim=True)
    similarity_R = (sums_RK.gather(1, chosen_R1) / top_R1.clamp(min=1)).squeeze(1)
    return Majority(labels_R, top_R1.squeeze(1), similarity_R, tied_R)


def _lowest(labels_RK: Tensor, where_RK: Tensor) -> Tensor:
    limit = torch.iinfo(labels_RK.dtype).max
    lowest_R = labels_RK.masked_fill(~where_RK, limit).amin(1)
    return lowest_R.where(lowest_R < limit, UNLABELLED)


def _highest(labels_RK: Tensor, where_RK: Tensor) -> Tensor:
    return labels_RK.masked_fill(~where_RK, UNLABELLED).amax(1)


def semantic_labels(given_B: Tensor, votes: Votes, minimum_votes: int = 0) -> Tensor:
    """pl(x): the given label, else the pseudo-label if at least `minimum_votes` ballots agree on it."""
    trusted_B = votes.labels_B.where(votes.counts_B >= minimum_votes, UNLABELLED)
    return given_B.where(given_B != UNLABELLED, trusted_B)


def trust(given_B: Tensor, votes: Votes, power: float) -> Tensor:
    """Weight of an image's label: 1 where it is given, else the winner's share of the ballots to a power."""
    share_B = votes.counts_B / len(votes.ballots_JB)
    return (share_B**power).where(given_B == UNLABELLED, 1.0)
