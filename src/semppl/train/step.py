"""One update of SemPPL, in the order of the paper's listing.

Shapes: B images · V large views · S small · A = V+S anchors · P positives · N negatives · D dims.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from semppl.core.batch import Batch
from semppl.core.rng import generator
from semppl.method.negatives import draw_negatives
from semppl.method.objective import Objective, Terms
from semppl.method.positives import sample_positives
from semppl.method.pseudo_labels import Pairs, Tie, Votes, semantic_labels, trust, vote
from semppl.method.queue import LabelledQueue
from semppl.train.encode import PLAIN, Nets, projections
from semppl.train.ranks import ALONE, Ranks
from semppl.train.state import TrainState
from semppl.views.photometric import Augment, finish
from semppl.views.recipe import View

Mark = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a step does and does not change."""

    views: Sequence[View]
    num_large: int
    mean_3: Tensor
    std_3: Tensor
    augment: Augment | None
    objective: Objective
    num_positives: int
    mirrored: bool
    num_negatives: int | None
    labels: Literal["pseudo", "given", "oracle"]
    minimum_votes: int
    vote_power: float
    k: int
    pairs: Pairs
    tie: Tie
    enqueue_first: bool
    small_target: bool
    lr: Callable[[int], float]
    decay: Callable[[int], float]
    autocast: Callable[[], AbstractContextManager[object]]
    seed: int
    nets: Nets = PLAIN
    """Compiled or not, as are `augment` and `objective`."""
    constant_decay: float | None = None
    """The decay, if it is the same in every step."""
    micro_batch: int | None = None
    """Images that go through a network together; None: all of a view."""
    ranks: Ranks = ALONE
    """Who else trains: each encodes its rows, and does the rest for the whole batch as all others do."""


class Tick(NamedTuple):
    """What changes from step to step; as tensors where the step is recorded."""

    lr: float | Tensor
    decay: float | Tensor
    draw: Callable[[str], torch.Generator]


class Outcome(NamedTuple):
    """What there is to see of a step; `votes` is None where nothing votes."""

    terms: Terms
    votes: Votes | None


def ignore(phase: str) -> None:
    """Nobody measures."""


def train_step_(
    state: TrainState, batch: Batch, plan: Plan, tick: Tick | None = None, mark: Mark = ignore
) -> Outcome:
    """Change weights, target, queue and clock by one batch; `mark` hears when a phase is over."""
    tick = tick or tick_of(plan, state.step, batch.labels_B.device)

    # views: uint8 crops → augmented floats, parameters drawn for each image
    views_A = augmented(batch, plan, tick.draw("photometric"))
    mark("photometric")

    # encode: predictions of all views; target projections of the large ones, without gradient
    with plan.autocast():
        online_ABD = plan.ranks.gather(
            state.predict(views_A, plan.nets, plan.micro_batch), len(batch.labels_B), dim=1
        )
        mark("online forward")
        target_VBD, small_target_SBD = target_projections(state, views_A, online_ABD, plan)
        mark("target forward")

    # queue, vote, positives: labelled rows enter, neighbours vote, labels choose
    votes, positives = None, None
    if state.queue is not None:
        predictions_VBD = online_ABD[: plan.num_large].detach()
        if plan.enqueue_first:
            state.queue.push_(target_VBD.detach(), batch.labels_B, predictions_VBD)
            mark("queue")
        votes = vote_together(predictions_VBD, state.queue, plan)
        mark("k-NN")
        labels_B, rng = choose_labels(batch, votes, plan), tick.draw("positives")
        positives = sample_positives(
            labels_B, state.queue, len(views_A), plan.num_positives, rng, mirrored=plan.mirrored
        )
        if plan.vote_power:
            positives = positives._replace(trust_B=trust(batch.labels_B, votes, plan.vote_power))
        mark("positives")
        if not plan.enqueue_first:
            state.queue.push_(target_VBD.detach(), batch.labels_B, predictions_VBD)
            mark("queue")

    # loss: over all (anchor, target) pairs of views, in float32
    negatives_BN = None
    if plan.num_negatives is not None:
        negatives_BN = draw_negatives(len(batch.labels_B), plan.num_negatives, tick.draw("negatives"))
    terms = plan.objective(online_ABD, target_VBD, positives, negatives_BN, small_target_SBD)
    mark("loss")

    # update: weights, then the target from the new weights, then the clock
    state.optimizer.zero_grad(set_to_none=True)
    terms.total.backward()
    mark("backward")
    state.set_lr_(tick.lr)
    state.optimizer.step()
    mark("optimiser")
    if state.target is not None:
        state.target.update_(state.online, tick.decay)
        mark("target update")
    state.step += 1
    return Outcome(Terms(*(term.detach() for term in terms)), votes)


def tick_of(plan: Plan, step: int, device: torch.device) -> Tick:
    """Rates and generators of a step."""
    return Tick(plan.lr(step), plan.decay(step), lambda name: generator(plan.seed, name, step, device))


def augmented(batch: Batch, plan: Plan, rng: torch.Generator) -> list[Tensor]:
    """The views of this rank's rows, in the order of the anchors."""
    rows = plan.ranks.rows(len(batch.labels_B))
    return [
        finish(crop, view, plan.mean_3, plan.std_3, rng, plan.augment, rows)
        for crop, view in zip(batch.crops, plan.views, strict=True)
    ]


def target_projections(
    state: TrainState, views_A: list[Tensor], online_ABD: Tensor, plan: Plan
) -> tuple[Tensor, Tensor | None]:
    """Of the large views and, where the plan asks for them, of the small ones.

    Without a target network (SimCLR) they are the online ones, and gradients flow through both sides.
    """
    if state.target is None:
        return online_ABD[: plan.num_large], None
    of_small = plan.num_large if not plan.small_target else len(views_A)
    mine_AbD = projections(views_A[:of_small], state.target.module, plan.nets, plan.micro_batch)
    target_ABD = plan.ranks.gather(mine_AbD, online_ABD.shape[1], dim=1)
    small_SBD = target_ABD[plan.num_large :]
    return target_ABD[: plan.num_large], small_SBD if len(small_SBD) else None


def vote_together(predictions_VBD: Tensor, queue: LabelledQueue, plan: Plan) -> Votes:
    """Each rank asks the neighbours of its own rows, and all hear all answers."""
    num_images = predictions_VBD.shape[1]
    mine_VbD = predictions_VBD[:, plan.ranks.rows(num_images).slice]
    votes = vote(mine_VbD, queue, k=plan.k, pairs=plan.pairs, tie=plan.tie)
    answers_b = torch.cat([votes.labels_B[None], votes.counts_B[None], votes.ballots_JB])
    answers_B = plan.ranks.gather(answers_b, num_images, dim=1)
    return Votes(answers_B[0], answers_B[1], answers_B[2:])


def choose_labels(batch: Batch, votes: Votes, plan: Plan) -> Tensor:
    """The labels that pick semantic positives: given and pseudo, given alone, or all true ones."""
    if plan.labels == "given":
        return batch.labels_B
    if plan.labels == "oracle":
        if batch.oracle_B is None:
            raise ValueError("the oracle ablation needs data loaded with true labels")
        return batch.oracle_B
    return semantic_labels(batch.labels_B, votes, plan.minimum_votes)
