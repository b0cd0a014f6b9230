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
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import tyro

from semppl.bench.settings import BenchFlags
from semppl.config import Config, from_yaml
from semppl.core.errors import RunError, UserError, choose
from semppl.core.rundir import RunDirectory
from semppl.fit.settings import FitSettings, stored_settings
from semppl.presets import PRESETS, fit
from semppl.verbs import Bench, Demo, Evaluate, Export, Fit, Import, Predict, Pretrain


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a verb and leave with its exit status: 0, 2 for the user's input, 1 for a failure while running."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files that are no valid text go out as they are
            stream.reconfigure(errors="surrogateescape")
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
    if isinstance(verb, Bench):
        _bench(verb, arguments)
        return
    table: dict[type, Callable[[Any], None]] = {
        Demo: _demo,
        Evaluate: _evaluate,
        Export: _export,
        Fit: _fit,
        Import: _import,
        Predict: _predict,
        Pretrain: _pretrain,
    }
    table[type(verb)](verb)


def _leave(message: str, signum: int | None, status: int) -> NoReturn:
    print(f"semppl: {message}", file=sys.stderr)
    sys.exit(status if signum is None else 128 + signum)


def _parse(arguments: list[str]) -> object:
    """Flags over the preset, or over the stored configuration of a run that goes on."""
    if arguments[:1] in (["--version"], ["-V"]):
        from semppl import __version__

        print(f"semppl {__version__}")
        sys.exit(0)
    start = _starting_point(arguments) if arguments[:1] in (["pretrain"], ["fit"]) else Config()
    defaults = {
        "demo": Demo(),
        "fit": Fit(config=start, **_stored_journey(arguments)),
        "predict": Predict(),
        "evaluate": Evaluate(),
        "export": Export(),
        "import": Import(),
        "pretrain": Pretrain(config=start),
        "bench": Bench(),
    }
    documents = {name: BenchFlags if name == "bench" else type(verb) for name, verb in defaults.items()}
    verbs = tyro.extras.subcommand_type_from_defaults(
        defaults,
        descriptions={name: inspect.getdoc(kind) or "" for name, kind in documents.items()},
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
        return fit() if arguments[0] == "fit" else choose(PRESETS, preset or "auto", "preset")()
    if preset is not None:
        raise UserError("--resume takes its values from the run: leave --preset out")
    if out is None:
        raise UserError("--resume needs --out: the run directory to go on with")
    run = RunDirectory(Path(out))
    run.require()
    return from_yaml(run.config.read_text())


def _stored_journey(arguments: list[str]) -> dict[str, Any]:
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


def _pretrain(verb: Pretrain) -> None:
    from rich.console import Console

    from semppl.train.pretrain import pretrain

    config = _with_source(verb.config, verb.data, "pretrain")
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


def _fit(verb: Fit) -> None:
    from rich.console import Console

    from semppl.fit.run import run_fit

    config = _with_source(verb.config, verb.data, "fit")
    out = verb.out or Path("runs") / f"{Path(config.source).stem}-fit-seed{config.seed}"
    run_fit(
        config,
        RunDirectory(out),
        FitSettings(minutes=verb.minutes, baselines=verb.baselines, finetune=verb.finetune),
        console=Console(markup=False),
        resume=verb.resume,
        overwrite=verb.overwrite,
    )


def _with_source(config: Config, data: str, verb: str) -> Config:
    """Files by their full path, so that a run goes on from any folder."""
    config = replace(config, source=_absolute(data)) if data else config
    if not config.source:
        raise UserError(f"no data: semppl {verb} DATA (--help says what DATA may be)")
    given = config.data
    labels, test, root = (
        value and str(Path(value).absolute()) for value in (given.labels, given.test, given.root)
    )
    return replace(config, data=replace(given, labels=labels, test=test, root=root))


def _absolute(data: str) -> str:
    return str(Path(data).absolute()) if Path(data).exists() else data


def _predict(verb: Predict) -> None:
    from rich.console import Console

    from semppl.deploy.predict import predict_folder

    if not verb.model or not verb.images:
        raise UserError("say which model and which images: semppl predict RUN IMAGES")
    table = predict_folder(
        Path(verb.model),
        Path(verb.images),
        verb.out,
        device=verb.device,
        workers=verb.workers,
        overwrite=verb.overwrite,
        console=Console(markup=False, stderr=True),
        labels=verb.labels,
    )
    if table is not None:
        print(table, end="")


def _evaluate(verb: Evaluate) -> None:
    from rich.console import Console

    from semppl.protocols.compare import compare

    if not verb.runs:
        raise UserError("say which run, before any flag: semppl evaluate RUN --protocol knn linear")
    console = Console(markup=False)
    if verb.compare:
        compare(verb.runs, console)
        return
    from semppl.protocols.run import run_evaluate

    run_evaluate(verb.runs, verb, console)


def _export(verb: Export) -> None:
    from rich.console import Console

    from semppl.deploy.export import run_export

    if not verb.run:
        raise UserError("say which run, before any flag: semppl export RUN --format onnx")
    run_export(Path(verb.run), verb, Console(markup=False))


def _import(verb: Import) -> None:
    from rich.console import Console

    from semppl.released.run import import_checkpoint

    if not verb.file:
        raise UserError("say which file: semppl import FILE.pkl")
    import_checkpoint(Path(verb.file), verb.out, overwrite=verb.overwrite, console=Console(markup=False))


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
