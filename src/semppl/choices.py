"""What `fit` chooses where the user left it open: by the size and number of images, labels and the device.

Every choice is a value of the configuration, printed and kept in the run directory; none replaces what the
user wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from semppl.config import Config, OptimConfig
from semppl.core.counted import counted

_ADAMW_PEAK: Final = 0.002
# a fifth of an image of 8 px is a spot of 3 px: below this size views hold at least half of an image
_TINY, _TINY_AREA = 16, 0.5
# measured at 10 and, where it brings nothing, at 1 (docs/fit-measured.md); between them it is judgement
_IMBALANCED: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of the data and the machine."""

    image_size: int
    num_images: int
    num_labels: int
    num_classes: int
    gpu: bool
    fitting: Callable[[int], int]
    """The side of images that the encoder takes which is nearest to one wanted."""
    grey: bool = False
    """No image has colours: changing them would change nothing."""
    imbalance: float = 1.0
    """How many times as many labels the most frequent class has as the rarest that has any."""


def choose_network(config: Config, facts: Facts) -> Config:
    """Encoder, size of views and batch, before the length of the run is known.

    A CPU gets views of at most 64 px, batches of at most 128 images and a slim ResNet-10 with slim heads,
    because epochs count more in a short run than the size of the network.
    """
    net, views = config.net, config.views
    most = 224 if facts.gpu else 64
    size = min(facts.image_size, most)
    ours = not (net.encoder or "").startswith("timm:")
    size = facts.fitting(size) if views.large_size is None else views.large_size
    deep = facts.gpu and size > 64 and facts.num_images >= 20_000
    small_stem = size <= (64 if facts.gpu else 40)
    batch = 2 ** max(min(facts.num_images // 8, 512 if facts.gpu else 128).bit_length() - 1, 1)
    slim = ours and not facts.gpu and net.encoder is None
    batch = batch if config.batch_size is None else config.batch_size
    area = _TINY_AREA if views.min_area is None and size <= _TINY else views.min_area
    return replace(
        config,
        batch_size=batch,
        optim=_optimiser(config.optim, batch),
        views=replace(views, large_size=size, min_area=area, colour=views.colour and not facts.grey),
        net=replace(
            net,
            encoder=net.encoder or ("resnet10" if slim else "resnet50" if deep else "resnet18"),
            width=_width(slim, small_stem) if net.width is None else net.width,
            head_hidden=(512 if slim else 4096) if net.head_hidden is None else net.head_hidden,
            stem=net.stem or ("small" if small_stem else "imagenet"),
        ),
    )


def _optimiser(optim: OptimConfig, batch: int) -> OptimConfig:
    """AdamW at a peak of 0.002, whatever the batch: in short runs of small batches a rate scaled down by the
    batch learns too little (docs/fit-measured.md).
    """
    if optim.name not in (None, "adamw") or batch >= 1024:
        return optim
    rate = _ADAMW_PEAK * 256 / batch if optim.base_lr is None else optim.base_lr
    return replace(optim, name="adamw", base_lr=rate)


def _width(slim: bool, small_stem: bool) -> float:
    """The small stem keeps all pixels, so its channels cost sixteen times as much."""
    return (0.25 if small_stem else 0.5) if slim else 1.0


def choose_queue(config: Config, facts: Facts) -> Config:
    """Capacity by the number of labels, and enough labelled images in each batch to fill the queue early.

    With few labels a long queue holds many old copies of the same images: 16 for each label are enough, and
    64 for each class the least (method: 50 to 80). The queue should be full after a tenth of the run; where
    shuffled data would take longer, batches get a fixed share of labelled images, at most an eighth. Where
    labels are few and uneven, all classes are shown equally often.
    """
    method, data = config.method, config.data
    batch = config.images_per_step
    capacity = method.queue_capacity
    if capacity is None:
        capacity = max(64 * facts.num_classes, min(20 * batch, 16 * facts.num_labels))
    steps = config.total_steps(facts.num_images)
    needed = 10 * capacity / (batch * steps)
    share = data.labelled_fraction
    natural = facts.num_labels / facts.num_images
    if share is None and natural < min(needed, 1 / 8) and 0 < facts.num_labels < facts.num_images:
        share = max(min(needed, 1 / 8), 1 / batch)
    # with many labels, frequent classes would be shown much less than without any balance
    uneven = (facts.imbalance >= _IMBALANCED and natural < 1 / 8) or None
    balance = uneven if data.balance_labels is None else data.balance_labels
    return replace(
        config,
        method=replace(method, queue_capacity=capacity),
        data=replace(data, labelled_fraction=share, balance_labels=balance),
    )


def choose_votes(config: Config) -> Config:
    """A pseudo-label is used where three of four ballots agree: in short runs many are wrong, and these are
    wrong less often (docs/fit-measured.md). Not where ballots weigh instead of deciding.
    """
    method = config.method
    if method.minimum_votes is not None or method.vote_power:
        return config
    return replace(config, method=replace(method, minimum_votes=ceil(0.75 * config.num_ballots)))


def epochs_for(minutes: float, seconds_per_step: float, batch_size: int, num_images: int) -> float:
    """As many as fit, at most 1,000; of few a part, and at least a tenth of one."""
    epochs = minutes * 60 / seconds_per_step * batch_size / num_images
    return min(float(int(epochs)), 1000.0) if epochs >= 5 else max(int(10 * epochs) / 10, 0.1)


def told(config: Config, minutes: float, mean: Sequence[float], std: Sequence[float]) -> list[str]:
    """The choices in words; `mean` and `std` are those of the channels."""
    net, views, data, method = config.net, config.views, config.data, config.method
    width = "" if net.width == 1 else f", {net.width:g} of its width"
    kernels = ", selective kernels" if net.sk else ""
    small = f" + {views.small} × {views.small_size} px" if views.small else ""
    share = "" if data.labelled_fraction is None else f", {data.labelled_fraction:.0%} of it labelled"
    share += ", classes equally often among its labels" if data.balance_labels else ""
    needed = f"{method.minimum_votes} of {counted(config.num_ballots, 'ballot')} for a pseudo-label"
    votes = f", {needed}" if method.minimum_votes else ""
    colour = "" if views.colour else ", no changes of colour"
    flip = "" if views.flip else ", no flips"
    source = "the weights" if net.pretrained or net.mean else "the images"
    return [
        f"encoder {net.encoder}{width}{kernels}, {net.stem} stem; views {views.large} × "
        f"{views.large_size} px{small}{colour}{flip}",
        f"normalised by {source}: mean {_listed(mean)}, standard deviation {_listed(std)}",
        f"batch {config.batch_size}{share}, queue {method.queue_capacity:,}{votes}, {config.optim.name}; "
        f"{counted(f'{config.epochs:g}', 'epoch')}, about {_duration(minutes)}",
    ]


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes >= 1.5 else f"{60 * minutes:.0f} s"
