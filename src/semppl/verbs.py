"""The verbs of the command line, their flags, and what these start from. No torch here, so that --help is
quick.
"""

from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from semppl.ablate.settings import AblateFlags
from semppl.bench.settings import BenchFlags
from semppl.config import Config, stored_config
from semppl.core.errors import UserError, choose
from semppl.core.rundir import RunDirectory
from semppl.deploy.settings import ExportFlags
from semppl.doctor.settings import DoctorFlags
from semppl.fit.settings import FitSettings, stored_settings
from semppl.presets import PRESETS, fit
from semppl.protocols.settings import EvaluateFlags
from semppl.report.settings import ReportFlags
from semppl.saliency.settings import MasksFlags
from semppl.slurm.settings import SlurmFlags


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Learn a representation from images of which few have labels; see fit for what DATA may be."""

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images; may be left out with --resume."""
    out: Path | None = None
    """Run directory; by default runs/NAME-seedN."""
    preset: str = "auto"
    """Where the other flags start from: auto (by the data), paper, digits, cifar10-4000, -250 or -40."""
    resume: bool = False
    """Go on with the run in --out."""
    init_from: Path | None = None
    """Start a new run from the weights of another run or checkpoint."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    debug: bool = False
    """Show the traceback of an error."""
    slurm: Annotated[SlurmFlags, tyro.conf.arg(name="")] = field(default_factory=SlurmFlags)
    config: Annotated[Config, tyro.conf.arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Fit(FitSettings):
    """From a folder of images and a few labels to a result: pre-train, measure, label the rest, export.

    DATA is a folder of any depth with --labels labels.csv (path,label; any part of the images); or class
    folders beside a folder unlabelled/; or class folders with --labels-per-class N or --label-fraction F,
    which withholds the other labels; or an .npz file (x: uint8 images, y: labels, −1 for none); or the name
    of a torchvision data set, such as CIFAR10; or the word digits. Images are JPEG, PNG, WebP, TIFF, BMP or
    GIF of any size.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images; may be left out with --resume."""
    out: Path | None = None
    """Run directory; by default runs/NAME-fit-seedN."""
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    debug: bool = False
    """Show the traceback of an error."""
    config: Annotated[Config, tyro.conf.arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Label images with the model of a run: path, label, probability, vote share, nearest labelled images.

    Only the folder model/ of the run is needed, or with --labels any network that semppl.load reads.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ""
    """A run directory, or the folder of an exported model."""
    images: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES")] = ""
    """A folder of images, or one image."""
    labels: Path | None = None
    """For a network that knows no labels, such as imported weights: a table `path,label` of some images in
    the folder, or class folders elsewhere. They vote, and a linear classifier is fitted to their features."""
    out: Path | None = None
    """File for the table; by default it is printed."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: int | None = None
    """Processes that read files; by default one for each core."""
    overwrite: bool = False
    """Replace a file that is already there."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateFlags):
    """Measure what a run has learnt, each number with its protocol beside it.

    RUN is a folder that pretrain or fit wrote; its data must still be there. Results are shown and kept in
    RUN/evaluations/PROTOCOL.json. Settings are chosen on labels of training, never on the test.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ()
    """One run directory or several."""


@dataclass(frozen=True, kw_only=True)
class Ablate(AblateFlags):
    """The paper's analysis tables on your data, each cell a run, beside the paper's own numbers.

    TABLE is base, parts, oracle, positives, epochs, voting, k, queue, alpha, labels or own (with --rows), or
    several of them joined by commas. DATA is as for fit; without it the digits of the demo. The same command
    goes on after an interruption.
    """

    table: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = ""
    """Which one, or which: voting,k,queue."""
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images, before any flag."""
    preset: str | None = None
    """Where the other flags start from: auto (by the data), paper, digits, cifar10-4000, -250 or -40;
    digits where no DATA is given."""
    config: Annotated[Config, tyro.conf.arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Report(ReportFlags):
    """One page to look at, a single file that opens anywhere: results, curves, pseudo-labels, a gallery of
    semantic positives, a map of the images, advice on labels, configuration and cost.

    RUN is a folder that pretrain or fit wrote. Several runs are put side by side, seeds of one configuration
    as mean and standard deviation.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ()
    """One run directory or several, before any flag."""


@dataclass(frozen=True, kw_only=True)
class Masks(MasksFlags):
    """Find the object in each image without any labels, so that training can remove backgrounds.

    DATA is as for fit; of a folder all images get a mask, with or without labels. Masks are 1-bit PNGs in
    DATA.masks, where training finds them. The same command goes on after an interruption, and later does
    only what is new.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images, before any flag."""


@dataclass(frozen=True, kw_only=True)
class Export(ExportFlags):
    """Write the network of a run in the format of another library, and check that it answers the same there.

    RUN is a folder that fit, pretrain, import or export wrote.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ""
    """Whose network."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn a checkpoint that DeepMind released (FILE.pkl) into a run for evaluate, predict and export.

    The file is read by a reader that runs none of it. pretrain starts from the result with --init-from.
    """

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = ""
    """A pickle such as resnet_50_1x_10_pct.pkl."""
    out: Path | None = None
    """Run directory; by default runs/NAME."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The whole journey on digits that ship with scikit-learn: no download, minutes on two CPU cores.

    An interrupted demo goes on where it stopped.
    """

    out: Path = Path("runs/demo")
    """Where runs, results.json and neighbours.png go."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many seeds; the table then shows mean and standard deviation."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU."""
    overwrite: bool = False
    """Train again even if the runs are there."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(frozen=True, kw_only=True)
class Doctor(DoctorFlags):
    """Look at this machine and try a few steps: can it train, how fast, which batch fits, how long for a run?

    Takes the flags of pretrain, too. Without DATA the images are random, and the run is one on ImageNet. The
    exit status is 0 if training can run here. docs/scale.md says what is counted for several devices.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images, before any flag; see fit."""
    config: Annotated[Config, tyro.conf.arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Bench(BenchFlags):
    """See BenchFlags."""

    show: Path | None = None
    """Measure nothing: show the tables of an earlier bench.json and, with --out, draw its picture there."""


def starting_point(arguments: list[str]) -> Config:
    """The preset, or the stored configuration of the run to go on with."""
    verb = arguments[0] if arguments else ""
    if verb not in ("pretrain", "fit", "doctor", "ablate"):
        return Config()
    preset, out = _value_of("--preset", arguments), _value_of("--out", arguments)
    if verb == "ablate" or "--resume" not in arguments:
        default = _default_preset(verb, arguments)
        return fit() if verb == "fit" else choose(PRESETS, preset or default, "preset")()
    if preset is not None:
        raise UserError("--resume takes its values from the run: leave --preset out")
    if out is None:
        raise UserError("--resume needs --out: the run directory to go on with")
    run = RunDirectory(Path(out))
    run.require()
    return stored_config(run.config)


def _default_preset(verb: str, arguments: list[str]) -> str:
    """By whether there is data: words before the first flag."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments[1:]))
    if verb == "ablate" and words[1:] in ([], ["digits"]):
        return "digits"
    return "paper" if verb == "doctor" and not words else "auto"


def stored_journey(arguments: list[str]) -> dict[str, Any]:
    """What a journey that goes on includes."""
    if arguments[:1] != ["fit"] or "--resume" not in arguments:
        return {}
    out = _value_of("--out", arguments)
    return {} if out is None else asdict(stored_settings(Path(out)))


def _value_of(flag: str, arguments: list[str]) -> str | None:
    """The last value of a flag, as the parser will take it."""
    value = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value
