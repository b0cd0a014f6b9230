"""The commands that make a row again. A run does not keep the one it was started with, but its configuration
is complete, so a command with all its values trains the same, but for those that the others decide on.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from semppl.config import Config
from semppl.differing import flat
from semppl.presets import PRESETS
from semppl.report.collect import Run
from semppl.report.table.flags import as_words, changed_flags, setting_words
from semppl.report.table.measure import Measurement, flags_of
from semppl.report.table.method import all_values, origin_of
from semppl.report.table.portable import portable
from semppl.report.table.record import kept_roles
from semppl.report.table.unsaid import to_say

Names = Mapping[Path, str]
"""Runs as the page calls them."""

# said apart, of the machine, or of how often the run speaks
_LEFT_OUT: Final = frozenset(
    {
        *("source", "seed", "data.split_seed", "device", "timeout", "data.workers", "data.root"),
        *("log_every", "probe_every", "sheet_every", "checkpoint_every", "keep_checkpoints"),
    }
)


def training(runs: Sequence[Run], names: Names, always: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """The command of the first run and of those that have more than seeds of their own, and of the others
    what is another than in the first one.

    Runs of a row may have their data in other files, or labels that their training does not look at. Values
    that are said always stay the same where somebody changes others.
    """
    common = [_common(run, always) for run in runs]
    whole, others = list[str](), list[str]()
    for place, (run, words) in enumerate(zip(runs, common, strict=True)):
        own = _own(run, names)
        if place and words == common[0]:
            others.append(shlex.join(own))
        else:
            whole.append(shlex.join([*words, *own]))
    return whole, others


def _common(run: Run, always: Collection[str]) -> list[str]:
    """Over the preset that leaves the least to say, if the run keeps most of it."""
    values = {name: portable(value) for name, value in all_values(run.config).items()}
    source = str(values["source"])
    usual = flat(asdict(Config()))
    fitting = ["auto"]
    for name in PRESETS:
        chosen = set(_differing(usual, name))  # what the preset decides
        if 2 * len(chosen & set(_differing(values, name))) < len(chosen):
            fitting.append(name)
    preset = min(fitting, key=lambda name: (len(_differing(values, name)), name != "auto"))
    words = ["semppl", "pretrain", source or "DATA", *([] if preset == "auto" else ["--preset", preset])]
    for name in to_say(values, preset, _differing(values, preset), _num_images(run), always):
        words += setting_words(name, values[name])
    return words


def _differing(values: Mapping[str, Any], preset: str) -> list[str]:
    known = flat(asdict(PRESETS[preset]()))
    return [
        name
        for name, value in known.items()
        if name not in _LEFT_OUT and values[name] != (list(value) if isinstance(value, tuple) else value)
    ]


def _num_images(run: Run) -> int:
    """For training; 0 where nobody knows."""
    return sum(count for role, count in (run.roles or kept_roles(run.path)).items() if role != "test")


def _own(run: Run, names: Names) -> list[str]:
    values = all_values(run.config)
    words = ["--seed", str(values["seed"])]
    if values["data.split_seed"] not in (None, values["seed"]):
        words += ["--data.split-seed", str(values["data.split_seed"])]
    return [*words, *_start(run), "--out", names[run.path]]


def _start(run: Run) -> list[str]:
    """Weights of another run, which the configuration does not name."""
    origin = origin_of(run)
    return [] if origin is None else ["--init-from", str(portable(origin))]


def evaluating(measurements: Sequence[Measurement], names: Names) -> list[str]:
    """Each command once, for all runs that were measured alike."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for each in measurements:
        found.setdefault(tuple(_flags(each)), {})[names[each.run.path]] = None
    return [shlex.join(["semppl", "evaluate", *runs, *words]) for words, runs in found.items()]


def _flags(of: Measurement) -> list[str]:
    flags = flags_of(of.evaluation)
    if not flags:
        name = of.evaluation.name.removeprefix(of.protocol).removeprefix("-")
        return ["--protocol", of.protocol, *(["--name", name] if name else [])]
    changed = {"protocol": flags.get("protocol") or [of.protocol]} | changed_flags(flags)
    return [word for name, value in changed.items() for word in as_words(name, value)]
