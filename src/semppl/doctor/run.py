"""The verb `doctor`: look, try, say, keep."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from semppl.config import Config
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import write_text
from semppl.doctor.advice import Problem, about_machine, about_plan
from semppl.doctor.machine import look_around
from semppl.doctor.report import machine_table, problem_lines, tables
from semppl.doctor.settings import DoctorFlags, check
from semppl.train.device import choose_device

Examine = Callable[..., dict[str, Any]]


def run_doctor(
    config: Config, flags: DoctorFlags, command: str, console: Console, examine: Examine | None = None
) -> dict[str, Any]:
    """Everything that was found; RunError where nothing can be trained. What is known is kept at once."""
    check(flags)
    device = choose_device(config.device)
    if config.precision == "bf16" and device.type == "cpu":
        raise UserError("--precision bf16 is for GPUs")
    started = time.perf_counter()

    def say(what: str) -> None:
        console.print(f"[{time.perf_counter() - started:.0f} s] {what}", highlight=False, markup=False)

    place = Path.cwd() if flags.out is None else flags.out.absolute().parent
    machine = look_around(device, place)
    result: dict[str, Any] = {"command": command, "machine": asdict(machine)}
    console.print(machine_table(machine))
    problems = about_machine(machine, device.type, config.precision)
    _keep(result, problems, flags)
    if not any(problem.fatal for problem in problems):
        # late, because a torchvision that does not load would end it here, unsaid
        look = examine or import_module("semppl.doctor.examine").examine
        found = look(config, flags, device, len(machine.gpus), console, say)
        for table in tables(found):
            console.print(table)
        problems += about_plan(found, machine.disk_free)
        result |= found
        _keep(result, problems, flags)
    _conclude(problems, flags, console)
    return result


def _keep(result: dict[str, Any], problems: list[Problem], flags: DoctorFlags) -> None:
    result["problems"] = [asdict(problem) for problem in problems]
    if flags.out is None:
        return
    try:
        write_text(flags.out, json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"--out {flags.out}: {error.strerror or error}: give another file") from error


def _conclude(problems: list[Problem], flags: DoctorFlags, console: Console) -> None:
    for line in problem_lines(problems):
        console.print(line, highlight=False, soft_wrap=True)
    if flags.out is not None:
        console.print(f"written: {flags.out}", highlight=False, soft_wrap=True)
    if any(problem.fatal for problem in problems):
        raise RunError("nothing can be trained here before that is solved")
    mind = ": mind the lines above" if problems else ""
    console.print(f"training can run here{mind}", highlight=False)
