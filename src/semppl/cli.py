"""The command `semppl`: parsing, calling, printing. Verbs import torch late, so that --help is quick."""

import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import tyro

from semppl.bench.settings import BenchFlags
from semppl.config import Config, from_yaml
from semppl.core.errors import RunError, UserError, choose
from semppl.core.rundir import RunDirectory
from semppl.presets import PRESETS


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Learn a representation from images of which few have labels.

    DATA is an .npz file (x: uint8 images, y: labels, −1 where there is none) or the word digits.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ""
    """The images; may be left out with --resume."""
    out: Path | None = None
    """Run directory; by default runs/NAME-seedN."""
    preset: str = "auto"
    """Where the other flags start from: auto (by the data), paper, digits."""
    resume: bool = False
    """Go on with the run in --out."""
    init_from: Path | None = None
    """Start a new run from the weights of another run or checkpoint."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    debug: bool = False
    """Show the traceback of an error."""
    config: Annotated[Config, tyro.conf.arg(name="")]


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
class Bench(BenchFlags):
    """See BenchFlags."""

    show: Path | None = None
    """Measure nothing: show the tables of an earlier bench.json and, with --out, draw its picture there."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a verb and leave with its exit status: 0, 2 for the user's input, 1 for a failure while running."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        verb = _parse(arguments)
        _run(verb, arguments)
    except (UserError, RunError) as error:
        _leave(str(error), getattr(error, "signum", None), 2 if isinstance(error, UserError) else 1)
    except KeyboardInterrupt:
        _leave("interrupted", signal.SIGINT, 1)
    except BrokenPipeError:  # the reader of a pipe left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, the rest with --debug
        if "--debug" in arguments:
            traceback.print_exc()
        lines = str(error).splitlines() or [""]
        _leave(f"{type(error).__name__}: {lines[0]} (--debug shows where)", None, 1)
    sys.exit(0)


def _run(verb: object, arguments: list[str]) -> None:
    if isinstance(verb, Demo):
        _demo(verb)
    elif isinstance(verb, Pretrain):
        _pretrain(verb)
    elif isinstance(verb, Bench):
        _bench(verb, arguments)


def _leave(message: str, signum: int | None, status: int) -> NoReturn:
    print(f"semppl: {message}", file=sys.stderr)
    sys.exit(status if signum is None else 128 + signum)


def _parse(arguments: list[str]) -> object:
    """Flags over the preset, or over the stored configuration of a run that goes on."""
    if arguments[:1] in (["--version"], ["-V"]):
        from semppl import __version__

        print(f"semppl {__version__}")
        sys.exit(0)
    start = _starting_point(arguments) if arguments[:1] == ["pretrain"] else Config()
    verbs = tyro.extras.subcommand_type_from_defaults(
        {"demo": Demo(), "pretrain": Pretrain(config=start), "bench": Bench()},
        descriptions={
            name: inspect.getdoc(verb) or ""
            for name, verb in (("demo", Demo), ("pretrain", Pretrain), ("bench", BenchFlags))
        },
        prefix_names=False,
    )
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            verb = tyro.cli(
                verbs,
                prog="semppl",
                description="SemPPL: representations from many unlabelled images and few labels.",
                args=arguments or ["--help"],
                config=(tyro.conf.AvoidSubcommands,),
            )
    except SystemExit as leaving:
        if not leaving.code:
            raise
        raise UserError(_one_line(words.getvalue())) from None
    return verb


def _one_line(box: str) -> str:
    """The parser's message without its title, frame, rules and hints."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if set(line) <= {"─", "-"}:
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    said = [" ".join(words) for words in paragraphs if words]
    said = [words for words in said if not words.startswith(("Argument helptext", "For full helptext"))]
    for i, words in enumerate(said):
        if words.startswith("Perhaps you meant"):
            flags = [flag for flag in re.findall(r"--[a-z][\w.-]*", words) if flag != "--help"]
            said[i] = f"perhaps {' or '.join(flags)}"
    return f"{'; '.join(said)} (--help shows what there is)"


def _starting_point(arguments: list[str]) -> Config:
    """The preset, or the stored configuration of the run to go on with."""
    preset, out = _value_of("--preset", arguments), _value_of("--out", arguments)
    if "--resume" not in arguments:
        return choose(PRESETS, preset or "auto", "preset")()
    if preset is not None:
        raise UserError("--resume takes its values from the run: leave --preset out")
    if out is None:
        raise UserError("--resume needs --out: the run directory to go on with")
    run = RunDirectory(Path(out))
    run.require()
    return from_yaml(run.config.read_text())


def _value_of(flag: str, arguments: list[str]) -> str | None:
    """The last value of a flag, as the parser will take it."""
    value = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def _pretrain(verb: Pretrain) -> None:
    from rich.console import Console

    from semppl.train.pretrain import pretrain

    config = replace(verb.config, source=_absolute(verb.data)) if verb.data else verb.config
    if not config.source:
        raise UserError("no data: semppl pretrain DATA, where DATA is an .npz file or the word digits")
    out = verb.out or Path("runs") / f"{Path(config.source).stem}-seed{config.seed}"
    console = Console(markup=False)
    pretrain(
        config,
        RunDirectory(out),
        console=console,
        resume=verb.resume,
        overwrite=verb.overwrite,
        init_from=verb.init_from,
    )
    console.print(f"done: {out} (curves: tensorboard --logdir {out})", highlight=False, soft_wrap=True)


def _absolute(data: str) -> str:
    """A file by its full path, so that a run goes on from any folder."""
    return str(Path(data).absolute()) if Path(data).is_file() else data


def _demo(verb: Demo) -> None:
    from rich.console import Console

    from semppl.demo import run_demo

    if verb.seeds < 1:
        raise UserError(f"at least one seed is needed, not {verb.seeds}")
    run_demo(
        verb.out,
        seeds=range(verb.seed, verb.seed + verb.seeds),
        device=verb.device,
        precision=verb.precision,
        console=Console(markup=False),
        overwrite=verb.overwrite,
    )


def _bench(verb: Bench, arguments: list[str]) -> None:
    from rich.console import Console

    from semppl.bench.run import draw_bench, load_bench, run_bench, show_bench

    console = Console(markup=False)
    if verb.show is None:
        run_bench(verb, shlex.join(["semppl", *arguments]), console)
        return
    result = load_bench(verb.show)
    show_bench(result, console)
    if verb.out is not None:
        draw_bench(result, verb.out, overwrite=verb.overwrite)
