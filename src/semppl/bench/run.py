"""The verb `bench`: measure, show, keep."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from semppl import __version__
from semppl.bench.agreement import neighbours_agree, recording_agrees, step_waits_for_nothing
from semppl.bench.lightly import require_lightly, time_lightly
from semppl.bench.photometric import time_photometric
from semppl.bench.picture import draw_scaling
from semppl.bench.scaling import time_scaling
from semppl.bench.settings import BenchSettings
from semppl.bench.steptime import time_step
from semppl.bench.tables import tables
from semppl.bench.workload import build_workload
from semppl.core.errors import UserError
from semppl.core.rundir import write_text
from semppl.data.files import image_files
from semppl.train.build import choose_device

FILE = "bench.json"
PICTURE = "scaling.png"


def run_bench(settings: BenchSettings, command: str, console: Console) -> dict[str, Any]:
    """Everything that was asked for; what is measured is kept as soon as it is there."""
    _check(settings)
    device = choose_device(settings.device)
    started = time.perf_counter()

    def say(what: str) -> None:
        console.print(f"[{time.perf_counter() - started:.0f} s] {what}", highlight=False, markup=False)

    result: dict[str, Any] = {
        "command": command,
        "machine": _machine(device),
        "settings": {name: _plain(value) for name, value in asdict(settings).items()},
    }

    def keep(part: str, figures: Any) -> None:
        result[part] = figures
        if settings.out is not None:
            settings.out.mkdir(parents=True, exist_ok=True)
            write_text(settings.out / FILE, json.dumps(result, indent=1) + "\n")

    parts: dict[str, Callable[[], Any]] = {
        "step": lambda: time_step(settings, say, partial(keep, "step")),
        "agreement": lambda: _agreement(settings, device),
        "scaling": lambda: time_scaling(settings, say),
        "photometric": time_photometric,
        "lightly": lambda: time_lightly(build_workload(settings), settings, _workers(settings)),
    }
    wanted: list[str] = [*settings.parts, *settings.compare]
    if "step" in wanted:
        wanted.insert(wanted.index("step") + 1, "agreement")
    for part in wanted:
        say(part)
        keep(part, parts[part]())
    show_bench(result, console)
    if settings.out is not None:
        if "scaling" in result:
            draw_scaling(result["scaling"], settings.out / PICTURE)
        console.print(f"written: {settings.out / FILE}", highlight=False, soft_wrap=True)
    return result


def show_bench(result: dict[str, Any], console: Console) -> None:
    """The tables of a result."""
    for table in tables(result):
        console.print(table)


def load_bench(path: Path) -> dict[str, Any]:
    """An earlier result."""
    path = path / FILE if path.is_dir() else path
    try:
        result = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: no such file") from error
    except ValueError as error:
        raise UserError(f"{path}: not a result of semppl bench") from error
    if not isinstance(result, dict) or "machine" not in result:
        raise UserError(f"{path}: not a result of semppl bench")
    return result


def _check(settings: BenchSettings) -> None:
    for name, least in (("steps", 1), ("rounds", 1), ("batch_size", 2), ("large", 1), ("small", 0)):
        if getattr(settings, name) < least:
            raise UserError(f"--{name.replace('_', '-')} is {getattr(settings, name)}: at least {least}")
    if "lightly" in settings.compare:
        require_lightly()
    if settings.images is not None:
        image_files(settings.images)
    out = settings.out
    if out is not None and (out / FILE).exists() and not settings.overwrite:
        raise UserError(f"{out / FILE} is there already: give --overwrite, or another --out")


def _agreement(settings: BenchSettings, device: torch.device) -> dict[str, Any]:
    result: dict[str, Any] = {"neighbours": neighbours_agree(settings)}
    if device.type == "cuda":
        result["recording"] = recording_agrees(settings)
        result["step_waits_for_nothing"] = step_waits_for_nothing(settings)
    return result


def _workers(settings: BenchSettings) -> int:
    return len(os.sched_getaffinity(0)) if settings.workers is None else settings.workers


def _machine(device: torch.device) -> dict[str, Any]:
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or "cpu",
        "cores": len(os.sched_getaffinity(0)),
        "semppl": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if on_gpu else None,
        "python": platform.python_version(),
    }


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
