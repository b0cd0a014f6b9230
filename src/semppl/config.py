"""The configuration: these classes are the flags, the config.yaml of a run and the documentation.

Values are frozen; a key that nobody knows is an error; a value that the user wrote is never overwritten.
`None` means "chosen from the data": `semppl.resolve` fills it in, and the run directory keeps the choice.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
import yaml

from semppl.core.stored import load, stored_mapping, stored_text

T = TypeVar("T")


def _also(*flags: str) -> object:
    """Short flags beside the dotted one."""
    return tyro.conf.arg(aliases=list(flags))


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which labels training may see, and how images are read."""

    labels: Annotated[str | None, _also("--labels")] = None
    """A table `path,label` that covers any part of a folder's images (.csv), or a list of file names whose
    class folder counts as label (.txt, as ImageNet's official 1 % and 10 %)."""
    labels_per_class: Annotated[int | None, _also("--labels-per-class")] = None
    """Keep this many labels of each class and withhold the others; they then measure the pseudo-labels."""
    label_fraction: Annotated[float | None, _also("--label-fraction")] = None
    """Keep this share of each class's labels, and at least one."""
    validation: Annotated[float | None, _also("--validation")] = None
    """Share of the labels set aside to choose and to measure on; by default 0.2 in fit, none in pretrain."""
    test: Annotated[str | None, _also("--test")] = None
    """Images for testing alone: class folders, or a table `path,label` of images in the folder."""
    root: Annotated[str | None, _also("--root")] = None
    """Where torchvision keeps its data sets."""
    split_seed: int | None = None
    """Seed of the choice of labels; by default the seed of the run."""
    labelled_fraction: float | None = None
    """Share of labelled images in each batch; by default whatever the shuffled data gives."""
    balance_labels: bool | None = None
    """Show all classes equally often among the labelled images of a batch, and so in the queue; their share
    is then fixed, by default as in the data. By default where fit finds few and uneven labels."""
    feed: Annotated[Literal["auto", "resident", "streaming"], _also("--feed")] = "auto"
    """resident: pixels stay in the device's memory; streaming: workers read the files as they are needed.
    auto: the first where all images have one size and fit."""
    workers: Annotated[int | None, _also("--workers")] = None
    """Processes that read files; by default one for each core, half of that where training is on the CPU."""
    allow_unreadable: Annotated[bool, _also("--allow-unreadable")] = False
    """Go on even if more than 5 % of the files cannot be read."""
    masks: Annotated[str | None, _also("--masks")] = None
    """A folder of masks, or none; by default those in the npz file (own), or else DATA.masks if it exists."""


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """The views of an image (paper: 4 large of 224 px, 2 small of 96 px)."""

    large: int = 4
    """Large views: they vote and go through both networks."""
    small: int = 2
    """Small views: they go through the online network alone."""
    large_size: int | None = None
    """Pixels; by default the image's own size, at most 224."""
    small_size: int | None = None
    """By default half of the large size (96 for 224)."""
    recipe: Literal["paper", "small_images"] | None = None
    """paper: the even/odd table; small_images: no blur, larger crops. By default the second up to 64 px."""
    min_area: float | None = None
    """Least share of the image in a large view, if the recipe's is not wanted."""
    flip: float = 0.5
    """Probability of a horizontal flip."""
    colour: bool = True
    """Change saturation and hue, and turn some views grey; of no use for grey images, so fit turns it off."""
    solarise: bool = True
    """Solarise some of the odd views."""
    crop_probability: float = 1.0
    """Otherwise the whole image is resized."""
    blur_taps: int | None = None
    """Taps of the blur; by default a tenth of the view's size."""


@dataclass(frozen=True, kw_only=True)
class SaliencyConfig:
    """Background removal in large views, where the data has masks."""

    probability: float = 0.1
    """For each large view of each image; 0 turns it off."""
    min_foreground: float = 0.2
    """Least share of foreground for an image to be masked."""


@dataclass(frozen=True, kw_only=True)
class NetConfig:
    """Encoder, projector and predictor."""

    encoder: Annotated[str | None, _also("--encoder")] = None
    """resnet10, 18, 34, 50, 101, 152 or 200, wrn28-2 or wrn28-8, or timm:NAME; by default resnet18 up to
    64 px and resnet50 above."""
    sk: bool = False
    """Selective kernels, from resnet50 on."""
    pretrained: Annotated[bool, _also("--pretrained")] = False
    """Start from timm's weights."""
    width: float | None = None
    """Multiplies all channels; by default 1."""
    stem: Literal["imagenet", "small"] | None = None
    """By default small (3×3, stride 1) up to 64 px."""
    padding: Literal["symmetric", "same"] | None = None
    """same is TensorFlow's, which weights of DeepMind need; by default symmetric."""
    last_scale: float | None = None
    """Initial scale of the last batch norm of a residual block; by default 1 below 5,000 steps, 0 above."""
    head_hidden: int | None = None
    """Hidden units of projector and predictor; by default the paper's 4,096."""
    head_outputs: int | None = None
    """Dimensions of the embeddings; by default the paper's 256."""
    norm_ranks: int | None = None
    """Processes that share batch statistics: by default all; 1: each has its own; N: groups of N."""
    mean: tuple[float, ...] | None = None
    """Of the channels, where white is 1: images are normalised by it and by std. By default the images' own,
    or those that the weights expect with --pretrained or --init-from."""
    std: tuple[float, ...] | None = None
    """See mean."""


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """The method and the paper's ablations."""

    objective: Literal["relicv2", "simclr", "byol"] = "relicv2"
    """Base objective; --method.positives 0 gives it without semantic positives."""
    positives: int = 3
    """Semantic positives for each anchor and target view; 0: none, and no queue."""
    labels: Literal["pseudo", "given", "oracle"] = "pseudo"
    """Whose labels choose the positives: given and pseudo, given alone, or true ones (an upper bound)."""
    minimum_votes: int | None = None
    """Ballots that must agree before a pseudo-label is used; by default 0: all are; in fit three of four."""
    vote_power: float = 0.0
    """How a pseudo-label's positives are weighed: its share of the ballots to this power; 0: all alike."""
    k: int = 1
    """Neighbours of a ballot."""
    voting: Literal["all", "same", "one"] = "all"
    """Ballots: all V×V (queue, view) pairs, equal views, or one (view voting off)."""
    tie: Literal["lowest", "similarity"] = "lowest"
    """Who wins a tied vote: the lowest class, or the larger sum of cosines."""
    queue_capacity: int | None = None
    """Entries of each queue; by default 20 batches, and at least 64 for each class."""
    queue_initial_labels: Literal["random", "none"] = "random"
    """What the queue holds at first: random vectors of random classes, or nothing."""
    enqueue: Literal["before", "after"] = "before"
    """Whether a batch's labelled images are in the queue when it votes and draws."""
    alpha: float = 0.2
    """Weight of the semantic loss."""
    negatives: int | None = None
    """Negatives of each image; by default 10 for relicv2, all others for simclr, none for byol."""
    temperature: float = 0.2
    """τ of the softmax."""
    contrast_scale: float | None = None
    """c; by default the paper's 0.3 from 20,000 steps on and 1 below."""
    invariance_scale: float | None = None
    """λ; by default the paper's 5 from 20,000 steps on and 1 below."""
    stop_gradient: Literal["entropy_only", "teacher", "none"] = "entropy_only"
    """What the invariance penalty does not differentiate: the entropy, the first distribution, nothing."""
    semantic_partner: Literal["standin", "lockstep", "store", "swap", "none"] = "standin"
    """What stands for the online prediction of a queue entry in the penalty; see docs/algorithm.md."""
    small_partner: Literal["standin", "run_target", "none"] = "standin"
    """What stands for the target projection of a small view in the penalty."""
    same_view: bool | None = None
    """Whether a view is compared with itself; by default in relicv2 (as in the listing) alone. Contrasts are
    averaged over the pairs that are left, the penalty as before."""
    divide_by_positives: bool = True
    """Divide the loss by 1 + positives, as the listing does."""
    target_decay: float | None = None
    """γ of the target; by default 0.996 from 20,000 steps on, quicker (down to 0.97) in shorter runs."""
    target_schedule: Literal["constant", "cosine"] = "constant"
    """cosine ends at 1, as in BYOL."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """The optimiser."""

    name: Literal["lars", "sgd", "adamw"] | None = None
    """By default lars from batches of 1,024 on and adamw below."""
    base_lr: float | None = None
    """Per 256 images: the peak is base_lr × batch_size / 256. By default 0.3, or 0.001 for adamw."""
    momentum: float = 0.9
    """Of lars and sgd; the first beta of adamw."""
    weight_decay: float | None = None
    """By default 1e-6 (lars) or 1e-4; biases and normalisation never decay."""
    warmup_epochs: float | None = None
    """By default 10, and at most a tenth of the run."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A pre-training run."""

    source: Annotated[str, tyro.conf.Suppress] = ""
    """The data: see the verb; on the command line it stands right after it."""
    epochs: float = 300.0
    """How often each image is seen; in fit 0 leaves it to --minutes."""
    batch_size: int | None = None
    """Of all devices together; by default a power of two, at most 512 and at most an eighth of the images."""
    seed: int = 0
    """Decides every draw: weights, order, views, positives, negatives, and which labels are kept."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU; losses and norms are always fp32."""
    speed: Literal["auto", "eager", "graph", "compile"] = "auto"
    """Of a GPU: eager, graph (recorded once and replayed), compile (compiled, then recorded). auto: graph,
    and compile in runs long enough to earn the minutes that it takes."""
    micro_batch: int | None = None
    """Images encoded at a time: saves memory and computes each forward pass twice; the loss still sees the
    whole batch. A number below the batch size is what batch norm then sees."""
    timeout: float = 600.0
    """Seconds that processes wait for one that does not answer."""
    log_every: int | None = None
    """Steps between two lines of metrics; by default 10, and about 500 lines in a longer run."""
    probe_every: float = 5.0
    """Epochs between two looks at the features (k-NN on labels, spread, rank); 0: none."""
    checkpoint_every: float = 5.0
    """Epochs between two checkpoints; 0: one alone, when the run ends or is stopped."""
    sheet_every: float = 10.0
    """Epochs between two pictures of semantic positives in TensorBoard; 0: none."""
    keep_checkpoints: int = 2
    """Older ones are deleted."""
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

    @property
    def num_ballots(self) -> int:
        """Ballots for each image."""
        return {"all": self.views.large**2, "same": self.views.large, "one": 1}[self.method.voting]

    def total_steps(self, num_images: int) -> int:
        """⌊epochs · images / batch⌋, and at least one."""
        return max(int(self.epochs * num_images / self.images_per_step), 1)

    def steps_of(self, epochs: float, num_images: int) -> int:
        """A number of epochs in steps, at least one; none stay none."""
        return max(round(epochs * num_images / self.images_per_step), 1) if epochs else 0


def required(value: T | None) -> T:
    """A value that `resolved` has filled in."""
    if value is None:
        raise ValueError("this configuration is not resolved yet")
    return value


def files_of(config: Config) -> tuple[str | None, ...]:
    """Where what it is made from may lie; some are names of data sets."""
    data = config.data
    return config.source, data.labels, data.test, data.root, data.masks


def to_yaml(config: Config) -> str:
    """As written into a run directory."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def from_yaml(text: str, name: str = "the configuration") -> Config:
    """Back again; unknown keys are refused."""
    raw = stored_mapping(text, name)
    data = raw.get("data")  # of an older version: it knew no folders of masks
    older = {**raw, "data": {"masks": "own", **data}} if isinstance(data, Mapping) else raw
    return load(Config, older, name)


def stored_config(file: Path) -> Config:
    """That of a run directory."""
    return from_yaml(stored_text(file), str(file))
