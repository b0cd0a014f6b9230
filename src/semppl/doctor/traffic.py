"""What the ranks of a run tell each other in a step, and what each of them holds: counted, not measured.

W ranks share a batch of B images, so each encodes b = B/W rows; V large views, S small, A = V + S, D dims,
J ballots, n trained parameters, C channels of a batch norm. In rings, a rank sends 2(W−1)/W bytes for each
byte of a sum over all ranks, and (W−1)/W for each byte of what all ranks then have together.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from semppl.config import Config, required
from semppl.train.build import build_networks
from semppl.train.objectives import uses_queue

FLOAT: Final = 4
INTEGER: Final = 8
# a DDP bucket: gradients are added up in messages of about this size
_BUCKET: Final = 25 * 2**20
_BUFFERS: Final = {"lars": 1, "sgd": 1, "adamw": 2}


@dataclass(frozen=True, kw_only=True)
class NetworkFacts:
    """What the cost depends on."""

    parameters: int
    """Trained: encoder, projector and predictor."""
    target_parameters: int
    """Averaged: encoder and projector, or none."""
    online_norms: tuple[int, ...]
    """Channels of each batch norm that is trained."""
    target_norms: tuple[int, ...]
    stored_bytes: int
    """Weights and running statistics of all of them."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes that a rank sends in a step."""

    gradients: float
    """Added up by DDP, beside the backward pass where it can."""
    statistics: float
    """Of batch norm: gathered in forward passes, added up in backward ones."""
    embeddings: int
    """Predictions and target projections, gathered."""
    votes: int
    control: float
    """What hosts agree on."""
    norm_calls: int
    """Messages of batch norm, one after the other."""
    calls: int
    """Other messages that the step waits for; those of the gradients are not among them."""

    @property
    def total(self) -> float:
        """All kinds."""
        return self.gradients + self.statistics + self.embeddings + self.votes + self.control


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """Bytes that every rank holds, whatever their number; activations come on top."""

    weights: int
    gradients: int
    optimizer: int
    queue: int
    gathered: int
    """Embeddings of the whole batch."""
    positives: int
    """Drawn for the whole batch."""
    checkpoint: int
    """On disk."""


def count_network(config: Config) -> NetworkFacts:
    """From the modules themselves, without memory for their weights."""
    config = replace(config, net=replace(config.net, pretrained=False))
    try:
        with torch.device("meta"):
            online, predictor = build_networks(config, torch.device("meta"))
    except (RuntimeError, NotImplementedError):  # some of timm's models look at numbers while they are built
        online, predictor = build_networks(config, torch.device("cpu"))
    has_target = config.method.objective != "simclr"
    return NetworkFacts(
        parameters=_parameters(online) + _parameters(predictor),
        target_parameters=_parameters(online) if has_target else 0,
        online_norms=_norms(online) + _norms(predictor),
        target_norms=_norms(online) if has_target else (),
        stored_bytes=_stored(online) * (2 if has_target else 1) + _stored(predictor),
    )


def _parameters(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def _norms(module: nn.Module) -> tuple[int, ...]:
    return tuple(layer.num_features for layer in module.modules() if isinstance(layer, _BatchNorm))


def _stored(module: nn.Module) -> int:
    return sum(each.numel() * each.element_size() for each in module.state_dict().values())


def traffic(config: Config, network: NetworkFacts, world: int) -> Traffic:
    """Of one rank in one step of a resolved configuration."""
    adding = 2 * (world - 1) / world
    # of all other ranks; where they do not divide the batch, those with a row less fill up
    rows = (world - 1) * ceil(config.images_per_step / world)
    anchors, targets, dim = _anchors(config), _targets(config), required(config.net.head_outputs)
    statistics, norm_calls = _statistics(config, network, world)
    votes = (2 + config.num_ballots) * rows * INTEGER if uses_queue(config.method) else 0
    return Traffic(
        gradients=adding * FLOAT * network.parameters,
        statistics=statistics,
        embeddings=FLOAT * (anchors + targets) * rows * dim,
        votes=votes,
        control=adding * INTEGER,
        norm_calls=norm_calls,
        calls=2 + (targets > 0) + (votes > 0) if world > 1 else 0,
    )


def _statistics(config: Config, network: NetworkFacts, world: int) -> tuple[float, int]:
    """(bytes, messages): mean, deviation and count of each layer, view and part; two sums going back.

    Images encoded in parts are encoded twice by the online network, which computes each part again.
    """
    ranks = sharing_ranks(config, world)
    if ranks == 1:
        return 0.0, 0
    parts, again = 1, 1
    if config.micro_batch is not None:
        parts, again = ceil(ceil(config.images_per_step / world) / config.micro_batch), 2
    online, target = _anchors(config) * parts, _targets(config) * parts
    forward = again * online * _triples(network.online_norms) + target * _triples(network.target_norms)
    backward = online * 2 * sum(network.online_norms)
    calls = (again + 1) * online * len(network.online_norms) + target * len(network.target_norms)
    return FLOAT * ((ranks - 1) * forward + 2 * (ranks - 1) / ranks * backward), calls


def _triples(norms: tuple[int, ...]) -> int:
    return sum(2 * channels + 1 for channels in norms)


def sharing_ranks(config: Config, world: int) -> int:
    """Ranks that share batch statistics."""
    return world if config.net.norm_ranks is None else min(config.net.norm_ranks, world)


def _anchors(config: Config) -> int:
    return config.views.large + config.views.small


def _targets(config: Config) -> int:
    """Views that go through the target network."""
    method, views = config.method, config.views
    if method.objective == "simclr":
        return 0
    both = method.small_partner == "run_target" and method.objective == "relicv2"
    return views.large + (views.small if both else 0)


def messages_of_gradients(network: NetworkFacts) -> int:
    """Buckets of DDP."""
    return ceil(FLOAT * network.parameters / _BUCKET)


def holdings(config: Config, network: NetworkFacts) -> Holdings:
    """Memory of every rank, and the size of a checkpoint."""
    optimizer = FLOAT * network.parameters * _BUFFERS[required(config.optim.name)]
    anchors, dim, batch = _anchors(config), required(config.net.head_outputs), config.images_per_step
    queue, labels, positives = 0, 0, 0
    if uses_queue(config.method):
        kept = 2 if config.method.semantic_partner == "store" else 1
        capacity = required(config.method.queue_capacity)
        queue = kept * FLOAT * config.views.large * capacity * dim
        labels = INTEGER * (capacity + 1)
        positives = kept * FLOAT * anchors * config.views.large * config.method.positives * batch * dim
    return Holdings(
        weights=FLOAT * (network.parameters + network.target_parameters),
        gradients=FLOAT * network.parameters,
        optimizer=optimizer,
        queue=queue,
        gathered=FLOAT * (anchors + _targets(config)) * batch * dim,
        positives=positives,
        checkpoint=network.stored_bytes + optimizer + queue + labels,
    )
