"""The verb `bench`: measure, show, keep."""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from semppl import __version__
from semppl.bench.agreement import (
    crops_agree,
    neighbours_agree,
    recording_agrees,
    step_waits_for_nothing,
    teaching_agrees,
)
from semppl.bench.lightly import require_lightly, time_lightly
from semppl.bench.photometric import time_photometric
from semppl.bench.picture import draw_scaling
from semppl.bench.scaling import time_scaling
from semppl.bench.settings import BenchFlags, BenchSettings, filled
from semppl.bench.steptime import time_step
from semppl.bench.sweep import time_sweep
from semppl.bench.tables import tables
from semppl.bench.workload import build_workload
from semppl.core.cores import usable_cores
from semppl.core.errors import UserError
from semppl.core.rundir import write_text
from semppl.data.files import image_files
from semppl.train.device import choose_device

FILE = "bench.json"
PICTURE = "scaling.png"


def run_bench(flags: BenchFlags, command: str, console: Console) -> dict[str, Any]:
    """Everything that was asked for; what is measured is kept as soon as it is there."""
    device = choose_device(flags.device)
    settings = filled(flags, device.type)
    _check(settings, device)
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
            write_text(settings.out / FILE, json.dumps(result, indent=1) + "\n")

    parts: dict[str, Callable[[], Any]] = {
        "step": lambda: time_step(settings, say, partial(keep, "step")),
        "agreement": lambda: _agreement(settings, device),
        "scaling": lambda: time_scaling(settings, say),
        "photometric": time_photometric,
        "sweep": lambda: time_sweep(device, seed=settings.seed),
        "lightly": lambda: time_lightly(build_workload(settings), settings),
    }
    for part in _wanted(settings):
        say(_words(part, settings))
        keep(part, parts[part]())
    show_bench(result, console)
    if settings.out is not None:
        draw_bench(result, settings.out, overwrite=True)
        console.print(f"written: {settings.out / FILE}", highlight=False, soft_wrap=True)
    return result


def show_bench(result: dict[str, Any], console: Console) -> None:
    """The tables of a result."""
    try:
        found = list(tables(result))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"not a result of semppl bench that this version can show: {error!r}") from error
    for table in found:
        console.print(table)


def draw_bench(result: dict[str, Any], out: Path, *, overwrite: bool) -> None:
    """The picture of a scaling, if there is one."""
    if "scaling" not in result:
        return
    if (out / PICTURE).exists() and not overwrite:
        raise UserError(f"{out / PICTURE} is there already: give --overwrite, or another --out")
    _make_folder(out)
    draw_scaling(result["scaling"], out / PICTURE)


def load_bench(path: Path) -> dict[str, Any]:
    """An earlier result."""
    path = path / FILE if path.is_dir() else path
    try:
        result = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: no such file") from error
    except ValueError as error:
        raise UserError(f"{path}: not a result of semppl bench") from error
    if not isinstance(result, dict) or not {"machine", "settings"} <= result.keys():
        raise UserError(f"{path}: not a result of semppl bench")
    return result


def _wanted(settings: BenchSettings) -> list[str]:
    wanted: list[str] = []
    for part in dict.fromkeys((*settings.parts, *settings.compare)):
        wanted += ["step", "agreement"] if part == "step" else [part]
    return wanted


def _words(part: str, settings: BenchSettings) -> str:
    size = f" {settings.encoder}, {settings.image_size} px, {settings.batch_size} images"
    return part + (size if part == "step" else "")


def _check(settings: BenchSettings, device: torch.device) -> None:
    """Everything that could fail after the measuring, before it."""
    if settings.precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs")
    if "lightly" in settings.compare:
        require_lightly()
    if settings.images is not None:
        image_files(settings.images)
    if settings.out is None:
        return
    if "scaling" in settings.parts and find_spec("matplotlib") is None:
        raise UserError(
            "the picture of a scaling needs matplotlib (pip install semppl[plots]): leave --out out"
        )
    if (settings.out / FILE).exists() and not settings.overwrite:
        raise UserError(f"{settings.out / FILE} is there already: give --overwrite, or another --out")
    _make_folder(settings.out)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror or error}: give a folder") from error


def _agreement(settings: BenchSettings, device: torch.device) -> dict[str, Any]:
    result: dict[str, Any] = {"neighbours": neighbours_agree(settings)}
    if device.type == "cuda":
        result["recording"] = recording_agrees(settings)
        kinds = {"long": False, "short": True}
        result["teaching"] = {kind: teaching_agrees(settings, short=short) for kind, short in kinds.items()}
        result["crops"] = crops_agree(device)
        result["step_waits_for_nothing"] = step_waits_for_nothing(settings)
    return result


def _machine(device: torch.device) -> dict[str, Any]:
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or "cpu",
        "cores": usable_cores(),
        "semppl": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if on_gpu else None,
        "python": platform.python_version(),
    }


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
