"""How a run sees some images: their ballots, the labelled entries that voted, the positives drawn for them.

The views are those of a step, cut and augmented by the same functions with draws of their own, so that
training notices nothing; and they stay the same, so that two looks differ by what was learnt between them.
No rank but the caller's is needed.

Shapes: N images looked at, B of a batch, V large views, J ballots, K neighbours, P positives, C slots,
D dims.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semppl.config import Config
from semppl.core.labels import UNLABELLED
from semppl.core.rng import generator, stream
from semppl.core.share import Rows
from semppl.data.dataset import Dataset
from semppl.method.positives import draw_slots
from semppl.method.pseudo_labels import nearest, semantic_labels, vote
from semppl.method.queue import LabelledQueue
from semppl.train.build import Training
from semppl.train.encode import PLAIN, predictions
from semppl.train.feed import build_feed, mixture_of, saliency_of
from semppl.train.provenance import slot_images
from semppl.train.ranks import ALONE
from semppl.train.step import Plan, augmented
from semppl.views.geometry import cut_views

NO_SLOT: Final = -1
# images that go through the network together
_TOGETHER: Final = 256
# below this many files starting workers takes longer than they save
_FEW: Final = 256


class Seen(NamedTuple):
    """What the queue says of N images, on the CPU."""

    labels_N: Tensor
    """The vote; UNLABELLED where no ballot was valid."""
    counts_N: Tensor
    ballots_NJ: Tensor
    tied_N: Tensor
    voters_NJK: Tensor
    """Slots, nearest first; NO_SLOT where a ballot has fewer neighbours."""
    cosines_NJK: Tensor
    positives_NP: Tensor
    """Slots drawn for the first anchor view from the first target view; NO_SLOT where there are none."""


def see(training: Training, config: Config, dataset: Dataset, index_N: Tensor) -> Seen:
    """Ask the queue of a run, as it is now, about some images of its training set."""
    state, queue = training.state, queue_of(training)
    plan = replace(
        training.plan, views=training.plan.views[: training.plan.num_large], augment=None, ranks=ALONE
    )
    own = replace(config, seed=stream(config.seed, "gallery"))
    parts, places = list[Seen](), list[Tensor]()
    with at_rest(state.online, state.predictor), torch.no_grad():
        views = _views(plan, own, dataset, index_N, training.device)
        for number, (place_B, given_B, views_V) in enumerate(views):
            with plan.autocast():
                predictions_VBD = predictions(views_V, state.online, state.predictor, PLAIN, None)
            rng = generator(own.seed, "positives", number, training.device)
            parts.append(asked(predictions_VBD, given_B, queue, plan, rng))
            places.append(place_B)
    order_N = torch.cat(places).argsort()
    return Seen(*(torch.cat(tensors)[order_N].cpu() for tensors in zip(*parts, strict=True)))


def queue_of(training: Training) -> LabelledQueue:
    """The queue of a run that has one."""
    if training.state.queue is None:
        raise ValueError("a run without semantic positives has no queue")
    return training.state.queue


def images_in(training: Training, config: Config, dataset: Dataset) -> Tensor:
    """The image in each slot of the queue [C]: see `slot_images`."""
    return slot_images(
        queue_of(training),
        training.state.step,
        dataset.labels_M,
        batch_size=config.images_per_step,
        seed=config.seed,
        mixture=mixture_of(config),
    )


def asked(
    predictions_VBD: Tensor, given_B: Tensor, queue: LabelledQueue, plan: Plan, rng: torch.Generator
) -> Seen:
    """The vote of a step with the neighbours that it came from, and positives drawn as a step draws them.

    An oracle's positives would tell the hidden truth, so they are drawn for given labels alone.
    """
    votes = vote(predictions_VBD, queue, k=plan.k, pairs=plan.pairs, tie=plan.tie)
    cosines_BJK, voters_BJK = voters(predictions_VBD, queue, plan)
    labels_B = given_B
    if plan.labels == "pseudo":
        labels_B = semantic_labels(given_B, votes, plan.minimum_votes)
    slots_VVPB, found_B = draw_slots(
        labels_B, queue, queue.views, plan.num_positives, rng, mirrored=plan.mirrored
    )
    return Seen(
        votes.labels_B,
        votes.counts_B,
        votes.ballots_JB.T,
        votes.tied_B,
        voters_BJK,
        cosines_BJK,
        slots_VVPB[0, 0].where(found_B, NO_SLOT).T,
    )


def voters(predictions_VBD: Tensor, queue: LabelledQueue, plan: Plan) -> tuple[Tensor, Tensor]:
    """Cosines and slots [B, J, K] of the neighbours behind each ballot of `vote`, in its order.

    The same search over the same rows, in which each key's label is its slot.
    """
    slots_C = torch.arange(queue.capacity, device=queue.labels_C.device)
    slots_C = slots_C.where(queue.labels_C != UNLABELLED, UNLABELLED)
    queries_VBD = F.normalize(predictions_VBD.to(queue.embeddings_VCD.dtype), dim=-1)
    found: list[tuple[Tensor, Tensor]] = []
    for i in range(queue.views if plan.pairs != "one" else 1):
        queries_RD = queries_VBD.flatten(0, 1) if plan.pairs == "all" else queries_VBD[i]
        found.append(nearest(queries_RD, queue.embeddings_VCD[i], slots_C, plan.k, rounded=True))
    shape = (-1, predictions_VBD.shape[1], plan.k)
    cosines_JBK, slots_JBK = (torch.cat(parts).view(shape) for parts in zip(*found, strict=True))
    return cosines_JBK.transpose(0, 1), slots_JBK.transpose(0, 1)


def judged(dataset: Dataset, index_N: Tensor, labels_N: Tensor) -> list[int | None]:
    """Whether votes are right: 1, 0, or None where nobody knows; of withheld truth nothing else is told.

    Images of training's own labels are not judged: they vote for themselves. For labels that are set aside
    the user's own word counts.
    """
    place_N = torch.arange(len(index_N))
    asked_N = (dataset.labels_M[index_N] == UNLABELLED) & (labels_N != UNLABELLED)
    right_N, known_N = torch.zeros_like(asked_N), torch.zeros_like(asked_N)
    if dataset.hidden is not None:
        group_N = place_N.where(asked_N, -1)
        table_N2 = dataset.hidden.agreement(index_N, labels_N, group_N, len(index_N)).bool()
        right_N, known_N = table_N2.unbind(1)
    if dataset.held_out_M is not None:
        held_N = dataset.held_out_M[index_N]
        apart_N = asked_N & (held_N != UNLABELLED)
        right_N, known_N = (held_N == labels_N).where(apart_N, right_N), known_N | apart_N
    pairs = zip(right_N.tolist(), known_N.tolist(), strict=True)
    return [int(right) if known else None for right, known in pairs]


@contextmanager
def at_rest(*modules: nn.Module) -> Iterator[None]:
    """In evaluation mode, in which batch norm neither learns nor speaks to other ranks; then as before."""
    before = [(each, each.training) for module in modules for each in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for each, training in before:
            each.training = training


def _views(
    plan: Plan, config: Config, dataset: Dataset, index_N: Tensor, device: torch.device
) -> Iterator[tuple[Tensor, Tensor, list[Tensor]]]:
    """Places among the N, given labels and augmented views, some images at a time and each once.

    By a feed of the images alone: its first epoch.
    """
    saliency = saliency_of(config)

    def cut(images: Tensor, masks: Tensor | None, rng: torch.Generator, rows: Rows) -> tuple[Tensor, ...]:
        return cut_views(images, plan.views, len(plan.views), rng, masks, saliency, rows=rows)

    total = len(index_N)
    batches = -(-total // min(_TOGETHER, config.micro_batch or _TOGETHER))
    workers = 0 if total <= _FEW else config.data.workers
    data = replace(config.data, labelled_fraction=None, balance_labels=False, workers=workers)
    config = replace(config, batch_size=-(-total // batches), data=data)
    feed = build_feed(config, part_of(dataset, index_N), cut, list(plan.views), device)
    try:
        for number in range(batches):
            batch, left = feed(number), total - number * feed.batch_size
            rng = generator(config.seed, "photometric", number, device)
            views = [view[:left] for view in augmented(batch, plan, rng)]
            yield batch.index_B[:left], batch.labels_B[:left], views
    finally:
        feed.close()


def part_of(dataset: Dataset, index_N: Tensor) -> Dataset:
    """Pixels, labels and masks of some images; withheld truth stays behind."""
    masks_MHW, mask_files = dataset.masks_MHW, dataset.mask_files
    return Dataset(
        name=dataset.name,
        images=dataset.images[index_N],
        labels_M=dataset.labels_M[index_N],
        names=[dataset.names[i] for i in index_N.tolist()],
        classes=dataset.classes,
        masks_MHW=None if masks_MHW is None else masks_MHW[index_N],
        mask_files=None if mask_files is None else mask_files.take(index_N.numpy()),
    )
