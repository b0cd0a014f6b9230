"""The configuration: these classes are the flags, the config.yaml of a run and the documentation.

Values are frozen; a key that nobody knows is an error; a value that the user wrote is never overwritten.
`None` means "chosen from the data": `resolved` fills it in, and the run directory keeps what was chosen.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import tyro
import yaml

from semppl.core.errors import UserError

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which labels training may see."""

    labels_per_class: int | None = None
    """Keep this many labels of each class and withhold the others; they then measure the pseudo-labels."""
    split_seed: int | None = None
    """Seed of that choice; by default the seed of the run."""
    labelled_fraction: float | None = None
    """Share of labelled images in each batch; by default whatever the shuffled data gives."""


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """The views of an image (paper: 4 large of 224 px, 2 small of 96 px)."""

    large: int = 4
    small: int = 2
    large_size: int | None = None
    """Pixels; by default the image's own size, at most 224."""
    small_size: int | None = None
    """By default half of the large size (96 for 224)."""
    recipe: Literal["paper", "small_images"] | None = None
    """paper: the even/odd table; small_images: no blur, larger crops. By default the second up to 64 px."""
    min_area: float | None = None
    """Least share of the image in a large view, if the recipe's is not wanted."""
    flip: float = 0.5
    colour: bool = True
    """Saturation and hue; of no use for grey images."""
    solarise: bool = True
    crop_probability: float = 1.0
    blur_taps: int | None = None
    """Taps of the blur; by default a tenth of the view's size."""


@dataclass(frozen=True, kw_only=True)
class SaliencyConfig:
    """Background removal in large views, where the data has masks."""

    probability: float = 0.1
    min_foreground: float = 0.2


@dataclass(frozen=True, kw_only=True)
class NetConfig:
    """Encoder, projector and predictor."""

    encoder: str | None = None
    """resnet10, 18, 34, 50, 101, 152 or 200; by default 18 up to 64 px and 50 above."""
    width: float = 1.0
    stem: Literal["imagenet", "small"] | None = None
    """By default small (3×3, stride 1) up to 64 px."""
    last_scale: float | None = None
    """Initial scale of the last batch norm of a residual block; by default 1 below 5,000 steps, 0 above."""
    head_hidden: int = 4096
    head_outputs: int = 256


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """The method and the paper's ablations."""

    objective: Literal["relicv2", "simclr", "byol"] = "relicv2"
    """Base objective; --method.positives 0 gives it without semantic positives."""
    positives: int = 3
    """Semantic positives for each anchor and target view; 0: none, and no queue."""
    labels: Literal["pseudo", "given", "oracle"] = "pseudo"
    """Whose labels choose the positives: given and pseudo, given alone, or true ones (an upper bound)."""
    minimum_votes: int = 0
    """Ballots that must agree before a pseudo-label is used; 0: all are."""
    k: int = 1
    """Neighbours of a ballot."""
    voting: Literal["all", "same", "one"] = "all"
    """Ballots: all V×V (queue, view) pairs, equal views, or one (view voting off)."""
    tie: Literal["lowest", "similarity"] = "lowest"
    queue_capacity: int | None = None
    """Entries of each queue; by default 20 batches."""
    queue_initial_labels: Literal["random", "none"] = "random"
    enqueue: Literal["before", "after"] = "before"
    """Whether a batch's labelled images are in the queue when it votes and draws."""
    alpha: float = 0.2
    """Weight of the semantic loss."""
    negatives: int | None = None
    """Negatives of each image; by default 10 for relicv2, all others for simclr, none for byol."""
    temperature: float = 0.2
    contrast_scale: float = 0.3
    invariance_scale: float = 5.0
    stop_gradient: Literal["entropy_only", "teacher", "none"] = "entropy_only"
    semantic_partner: Literal["standin", "lockstep", "store", "swap", "none"] = "standin"
    small_partner: Literal["standin", "run_target", "none"] = "standin"
    same_view: bool | None = None
    """Whether a view is compared with itself; by default in relicv2 (as in the listing) alone."""
    divide_by_positives: bool = True
    target_decay: float | None = None
    """γ of the target; by default 0.996 from 20,000 steps on, quicker (down to 0.97) in shorter runs."""
    target_schedule: Literal["constant", "cosine"] = "constant"


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """The optimiser."""

    name: Literal["lars", "sgd", "adamw"] | None = None
    """By default lars from batches of 1,024 on and adamw below."""
    base_lr: float | None = None
    """Per 256 images: the peak is base_lr × batch_size / 256. By default 0.3 lars, 0.05 sgd, 0.001 adamw."""
    momentum: float = 0.9
    weight_decay: float | None = None
    """By default 1e-6 (lars) or 1e-4; biases and normalisation never decay."""
    warmup_epochs: float | None = None
    """By default 10, and at most a tenth of the run."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A pre-training run."""

    source: Annotated[str, tyro.conf.Suppress] = ""
    """The data: an .npz file, or the word digits; on the command line it stands right after the verb."""
    epochs: float = 300.0
    batch_size: int | None = None
    """Of all devices together; by default a power of two, at most 512 and at most an eighth of the images."""
    seed: int = 0
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU; losses and norms are always fp32."""
    log_every: int = 10
    """Steps between two lines of metrics."""
    probe_every: float = 5.0
    """Epochs between two looks at the features (k-NN on labels, spread, rank)."""
    checkpoint_every: float = 5.0
    """Epochs between two checkpoints."""
    keep_checkpoints: int = 2
    data: DataConfig = field(default_factory=DataConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    saliency: SaliencyConfig = field(default_factory=SaliencyConfig)
    net: NetConfig = field(default_factory=NetConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)

    @property
    def images_per_step(self) -> int:
        """The batch size of a resolved configuration."""
        return required(self.batch_size)

    @property
    def peak_lr(self) -> float:
        """The highest learning rate."""
        return required(self.optim.base_lr) * self.images_per_step / 256

    @property
    def split_seed(self) -> int:
        """The seed that chooses the labels."""
        return self.seed if self.data.split_seed is None else self.data.split_seed

    def total_steps(self, num_images: int) -> int:
        """⌊epochs · images / batch⌋, and at least one."""
        return max(int(self.epochs * num_images / self.images_per_step), 1)

    def steps_of(self, epochs: float, num_images: int) -> int:
        """A number of epochs in steps, at least one."""
        return max(round(epochs * num_images / self.images_per_step), 1)


def required(value: T | None) -> T:
    """A value that `resolved` has filled in."""
    if value is None:
        raise ValueError("this configuration is not resolved yet")
    return value


def resolved(config: Config, *, image_size: int, num_images: int) -> Config:
    """The configuration with every choice made; what cannot work is refused here, before anything runs."""
    batch_size = config.batch_size
    if batch_size is None:
        batch_size = 2 ** max(min(num_images // 8, 512).bit_length() - 1, 1)
    config = replace(config, batch_size=batch_size)
    _check(config, batch_size, num_images)
    steps = config.total_steps(num_images)
    views, net, method = config.views, config.net, config.method
    large = views.large_size or min(image_size, 224)
    tiny = large <= 64
    return replace(
        config,
        data=replace(config.data, split_seed=config.split_seed),
        views=replace(
            views,
            large_size=large,
            small_size=views.small_size or (96 if large == 224 else max(large // 2, 1)),
            recipe=views.recipe or ("small_images" if tiny else "paper"),
        ),
        net=replace(
            net,
            encoder=net.encoder or ("resnet18" if tiny else "resnet50"),
            stem=net.stem or ("small" if tiny else "imagenet"),
            last_scale=_first(net.last_scale, 1.0 if steps < 5000 else 0.0),
        ),
        method=replace(
            method,
            queue_capacity=method.queue_capacity or 20 * batch_size,
            negatives=_negatives(method, batch_size),
            same_view=_first(method.same_view, method.objective == "relicv2"),
            target_decay=_first(method.target_decay, 1.0 - min(max(0.004 * 20_000 / steps, 0.004), 0.03)),
        ),
        optim=_optim(config.optim, batch_size, config.epochs),
    )


def _optim(optim: OptimConfig, batch_size: int, epochs: float) -> OptimConfig:
    name = optim.name or ("lars" if batch_size >= 1024 else "adamw")
    return replace(
        optim,
        name=name,
        base_lr=_first(optim.base_lr, {"lars": 0.3, "sgd": 0.05, "adamw": 0.001}[name]),
        weight_decay=_first(optim.weight_decay, 1e-6 if name == "lars" else 1e-4),
        warmup_epochs=_first(optim.warmup_epochs, min(10.0, epochs / 10)),
    )


def _negatives(method: MethodConfig, batch_size: int) -> int:
    if method.objective == "byol":
        return 0
    if method.negatives is not None:
        return min(method.negatives, batch_size - 1)
    return batch_size - 1 if method.objective == "simclr" else min(10, batch_size - 1)


def _first(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _check(config: Config, batch_size: int, num_images: int) -> None:
    method, views = config.method, config.views
    fraction, decay, lr = config.data.labelled_fraction, method.target_decay, config.optim.base_lr
    checks = [
        (batch_size >= 2, f"batch size {batch_size}: at least 2 images are needed for negatives"),
        (
            batch_size <= num_images,
            f"batch size {batch_size} is larger than the data ({num_images} images): "
            f"use --batch-size {num_images} or less",
        ),
        (config.epochs > 0, f"epochs must be positive, not {config.epochs}"),
        (config.log_every > 0, f"log_every must be at least 1, not {config.log_every}"),
        (views.large >= 1, f"at least one large view is needed, not {views.large}"),
        (views.small >= 0, f"the number of small views cannot be {views.small}"),
        (
            views.large + views.small >= 2 or method.objective == "relicv2",
            f"{method.objective} compares different views: use at least 2",
        ),
        (method.k >= 1, f"k must be at least 1, not {method.k}"),
        (method.positives >= 0, f"the number of positives cannot be {method.positives}"),
        (method.alpha >= 0, f"alpha cannot be {method.alpha}"),
        (method.temperature > 0, f"temperature must be positive, not {method.temperature}"),
        (decay is None or 0 <= decay <= 1, f"target decay must lie in [0, 1], not {decay}"),
        (lr is None or lr > 0, f"the learning rate must be positive, not {lr}"),
        (fraction is None or 0 < fraction < 1, f"labelled fraction must lie between 0 and 1, not {fraction}"),
        (
            method.labels != "oracle" or config.data.labels_per_class is not None,
            "oracle labels need --data.labels-per-class: the withheld labels are the oracle",
        ),
    ]
    for fine, message in checks:
        if not fine:
            raise UserError(message)


def to_yaml(config: Config) -> str:
    """As written into a run directory."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def from_yaml(text: str) -> Config:
    """Back again; unknown keys are refused."""
    raw = yaml.safe_load(text)
    if not isinstance(raw, Mapping):
        raise UserError("the configuration is not a YAML mapping")
    return load(Config, raw)


def load(cls: type[C], raw: Mapping[str, Any]) -> C:
    """A nested dataclass from nested mappings, strictly."""
    hints = get_type_hints(cls)
    if unknown := raw.keys() - hints.keys():
        raise UserError(f"unknown {cls.__name__} keys {sorted(unknown)}: known are {sorted(hints)}")
    return cls(**{k: load(hints[k], v) if is_dataclass(hints[k]) else v for k, v in raw.items()})


def differences(one: Config, other: Config) -> list[str]:
    """Dotted names of the values that differ."""
    return [name for name, value in flat(one).items() if flat(other)[name] != value]


def flat(config: object, prefix: str = "") -> dict[str, object]:
    """All values by dotted name."""
    values: dict[str, object] = {}
    for item in fields(config):  # type: ignore[arg-type]
        value = getattr(config, item.name)
        if is_dataclass(value):
            values |= flat(value, f"{prefix}{item.name}.")
        else:
            values[f"{prefix}{item.name}"] = value
    return values
