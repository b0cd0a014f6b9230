"""The command `semppl`: parsing, calling, printing. Verbs import torch late, so that --help is quick."""

import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from semppl.ablate.settings import TABLES, not_joined, tables_of
from semppl.config import Config
from semppl.core.allocator import keep_freed_memory_
from semppl.core.errors import Elsewhere, RunError, UserError
from semppl.core.out_of_memory import SMALLER, out_of_memory
from semppl.core.rundir import RunDirectory
from semppl.fit.settings import FitSettings
from semppl.parse import parse
from semppl.verbs import (
    Ablate,
    Bench,
    Demo,
    Doctor,
    Evaluate,
    Export,
    Fit,
    Import,
    Masks,
    Predict,
    Pretrain,
    Report,
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a verb and leave with its exit status: 0, 2 for the user's input, 1 for a failure while running."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _let_odd_names_out()
    keep_freed_memory_()
    try:
        _run(arguments)
    except Elsewhere:
        sys.exit(1)
    except UserError as error:
        _leave(str(error), None, 2)
    except RunError as error:
        _leave(str(error), getattr(error, "signum", None), 1)
    except KeyboardInterrupt:
        _leave("interrupted", signal.SIGINT, 1)
    except BrokenPipeError:  # the reader of a pipe left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, the rest with --debug
        if "--debug" in arguments:
            traceback.print_exc()
        _leave(_unforeseen(error, arguments), None, 1)
    sys.exit(0)


def _unforeseen(error: Exception, arguments: Sequence[str]) -> str:
    full = out_of_memory(error)
    if full is not None and arguments[0] in ("ablate", "doctor", "fit", "pretrain"):
        return f"{full}: {SMALLER}"
    lines = str(error).splitlines() or [""]
    return f"{full or f'{type(error).__name__}: {lines[0]}'} (--debug shows where)"


def _let_odd_names_out() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files that are no valid text go out as they are
            stream.reconfigure(errors="surrogateescape")


def _run(arguments: list[str]) -> None:
    if arguments[:1] in (["--version"], ["-V"]):
        from semppl import __version__

        print(f"semppl {__version__}")
        return
    verb = parse(arguments)
    command = shlex.join(["semppl", *arguments])
    table: dict[type, Callable[[Any], None]] = {
        Ablate: partial(_ablate, command=command),
        Bench: partial(_bench, command=command),
        Demo: _demo,
        Doctor: partial(_doctor, command=command),
        Evaluate: _evaluate,
        Export: _export,
        Fit: _fit,
        Import: _import,
        Masks: _masks,
        Predict: _predict,
        Pretrain: partial(_pretrain, arguments=arguments),
        Report: _report,
    }
    if not isinstance(verb, Evaluate | Pretrain) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"semppl {arguments[0]} is for one process: start it without torchrun")
    table[type(verb)](verb)


def _leave(message: str, signum: int | None, status: int) -> NoReturn:
    """One line; what is wrong with the command is wrong on all ranks alike, and signals come to all of them,
    so the main one says it.
    """
    rank = os.environ.get("RANK", "0")
    if rank == "0" or (status == 1 and signum is None):
        print("semppl" if rank == "0" else f"semppl, rank {rank}", message, sep=": ", file=sys.stderr)
    sys.exit(status if signum is None else 128 + signum)


def _console(*, stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(markup=False, stderr=stderr)


def _pretrain(verb: Pretrain, arguments: list[str]) -> None:
    config = _with_source(verb.config, verb.data, "pretrain")
    from semppl.slurm.submit import submitted
    from semppl.train.pretrain import pretrain
    from semppl.train.ranks import joined

    out = verb.out or Path("runs") / f"{Path(config.source).stem}-seed{config.seed}"
    console = _console()
    if submitted(verb, config, RunDirectory(out), arguments, console):
        return
    with joined(config.device, config.timeout) as (ranks, device):
        pretrain(
            config,
            RunDirectory(out),
            console=console,
            resume=verb.resume,
            overwrite=verb.overwrite,
            init_from=verb.init_from,
            ranks=ranks,
            device=device,
        )
    if ranks.main:
        console.print(f"done: {out} (curves: tensorboard --logdir {out})", highlight=False, soft_wrap=True)


def _fit(verb: Fit) -> None:
    config = _with_source(verb.config, verb.data, "fit")
    from semppl.fit.run import run_fit

    out = verb.out or Path("runs") / f"{Path(config.source).stem}-fit-seed{config.seed}"
    run_fit(
        config,
        RunDirectory(out),
        FitSettings(
            minutes=verb.minutes,
            baselines=verb.baselines,
            finetune=verb.finetune,
            consistency=verb.consistency,
        ),
        console=_console(),
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
    if not verb.model or not verb.images:
        raise UserError("say which model and which images: semppl predict RUN IMAGES")
    from semppl.deploy.predict import predict_folder

    table = predict_folder(
        Path(verb.model),
        Path(verb.images),
        verb.out,
        device=verb.device,
        workers=verb.workers,
        overwrite=verb.overwrite,
        console=_console(stderr=True),
        labels=verb.labels,
    )
    if table is not None:
        print(table, end="")


def _evaluate(verb: Evaluate) -> None:
    from semppl.protocols.compare import compare

    if not verb.runs:
        raise UserError("say which run, before any flag: semppl evaluate RUN --protocol knn linear")
    console = _console()
    if verb.compare:
        compare(verb.runs, console)
        return
    from semppl.protocols.run import run_evaluate

    run_evaluate(verb.runs, verb, console)


def _ablate(verb: Ablate, command: str) -> None:
    tables = tables_of(verb.table)
    if verb.data in TABLES and not Path(verb.data).exists():
        raise UserError(not_joined((*tables, verb.data)))
    from semppl.ablate.run import run_ablate

    named = verb.data or verb.config.source
    config = _with_source(verb.config, verb.data, "ablate TABLE") if named else verb.config
    run_ablate(config, verb.table, verb, _console(), command)


def _report(verb: Report) -> None:
    if not verb.runs:
        raise UserError("say which run, before any flag: semppl report RUN")
    from semppl.report.run import run_report

    run_report(verb.runs, verb, _console())


def _masks(verb: Masks) -> None:
    from semppl.saliency.settings import require_opencv

    if not verb.data:
        raise UserError("say which images, before any flag: semppl masks DATA")
    require_opencv()
    from semppl.saliency.run import run_masks

    run_masks(verb.data, verb, _console())


def _export(verb: Export) -> None:
    if not verb.run:
        raise UserError("say which run, before any flag: semppl export RUN --format onnx")
    from semppl.deploy.export import run_export

    run_export(Path(verb.run), verb, _console())


def _import(verb: Import) -> None:
    if not verb.file:
        raise UserError("say which file: semppl import FILE.pkl")
    from semppl.released.run import import_checkpoint

    import_checkpoint(Path(verb.file), verb.out, overwrite=verb.overwrite, console=_console())


def _demo(verb: Demo) -> None:
    if verb.seeds < 1:
        raise UserError(f"at least one seed is needed, not {verb.seeds}")
    from semppl.demo import run_demo

    run_demo(
        verb.out,
        seeds=range(verb.seed, verb.seed + verb.seeds),
        device=verb.device,
        precision=verb.precision,
        console=_console(),
        overwrite=verb.overwrite,
    )


def _doctor(verb: Doctor, command: str) -> None:
    if verb.data and verb.preset is None and command.startswith("semppl doctor -"):
        raise UserError("say which images before any flag: semppl doctor DATA --device cpu")
    from semppl.doctor.run import run_doctor

    named = verb.data or verb.config.source
    config = _with_source(verb.config, verb.data, "doctor") if named else verb.config
    run_doctor(config, verb, command, _console())


def _bench(verb: Bench, command: str) -> None:
    from semppl.bench.run import draw_bench, load_bench, run_bench, show_bench

    console = _console()
    if verb.show is None:
        run_bench(verb, command, console)
        return
    result = load_bench(verb.show)
    show_bench(result, console)
    if verb.out is not None:
        draw_bench(result, verb.out, overwrite=verb.overwrite)
