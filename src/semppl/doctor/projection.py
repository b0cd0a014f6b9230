"""How long a run would take on several such devices: what was measured on one, and the traffic counted."""

from dataclasses import dataclass
from math import ceil
from typing import Final

from semppl.config import Config
from semppl.doctor.traffic import NetworkFacts, messages_of_gradients, sharing_ranks, traffic

PER_MACHINE: Final = 8


@dataclass(frozen=True, kw_only=True)
class Links:
    """What carries the messages: taken for granted."""

    intra_gbps: float = 3600.0
    inter_gbps: float = 400.0
    intra_us: float = 20.0
    inter_us: float = 60.0
    per_machine: int = PER_MACHINE

    def seconds(self, sent: float, calls: int, ranks: int) -> float:
        """For bytes that each of so many ranks sends, in so many messages one after the other.

        A ring through several machines leaves each of them once, so all that a rank sends has to pass there.
        """
        if ranks <= 1:
            return 0.0
        alone = ranks <= self.per_machine
        gbps = self.intra_gbps if alone else min(self.intra_gbps, self.inter_gbps)
        return 8e-9 * sent / gbps + 1e-6 * calls * (self.intra_us if alone else self.inter_us)


@dataclass(frozen=True, kw_only=True)
class Projection:
    """On so many devices. Seconds are those of a step."""

    devices: int
    images: int
    """Of each device in a step."""
    compute: float
    gradients: float
    """The sum of the gradients, which DDP hides behind the backward pass as far as it can."""
    waiting: float
    """All other messages."""
    steps: int

    @property
    def step(self) -> tuple[float, float]:
        """Seconds if all, or none, of the gradients' time is hidden."""
        least = self.compute + self.waiting
        return least, least + self.gradients

    @property
    def hours(self) -> tuple[float, float]:
        """Of the run, for the same two cases."""
        least, most = self.step
        return self.steps * least / 3600, self.steps * most / 3600


def project(
    config: Config,
    network: NetworkFacts,
    *,
    devices: int,
    compute: float,
    num_images: int,
    links: Links | None = None,
) -> Projection:
    """`compute` is the measured time of a device for its share of a batch."""
    links = links or Links()
    sent = traffic(config, network, devices)
    statistics = links.seconds(sent.statistics, sent.norm_calls, sharing_ranks(config, devices))
    rest = links.seconds(sent.total - sent.gradients - sent.statistics, sent.calls, devices)
    return Projection(
        devices=devices,
        images=ceil(config.images_per_step / devices),
        compute=compute,
        gradients=links.seconds(sent.gradients, messages_of_gradients(network), devices),
        waiting=statistics + rest,
        steps=config.total_steps(num_images),
    )


def needed_gbps(sent: float, seconds: float, share: float = 0.05) -> float:
    """Gbit/s at which so many bytes take no more than this share of a step."""
    return 8e-9 * sent / (share * seconds)
