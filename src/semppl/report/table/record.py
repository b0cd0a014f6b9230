"""A run's record: the few files of it that a table of results needs, small enough for a repository.

`kept.json` marks it, and says what a table takes from files that are left behind: how many images of each
role split.csv has (which ones, only its sha256 still tells), how many lines of metrics there were, and how
long training took. The page made from records is that of the runs but for paths. Not known any more is
whether split.csv was damaged and whether the run was still training; nor in which folders files lay, nor the
machine's kernel.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semppl.core.rundir import KEPT, RunDirectory
from semppl.report.collect import Run
from semppl.report.facts import training_seconds
from semppl.report.lenient import finite, kept_mark
from semppl.report.seeds import decisive
from semppl.report.table.portable import portable, portable_file
from semppl.report.table.thin import kept_lines, lighter, thinned

_BY: Final = "semppl report --keep"
# fit.yaml says that minutes decided on the epochs, so that these make no other row
_WHOLE: Final = ("config.yaml", "environment.json", "split.sha256", "started_from.json", "fit.yaml")
_METRICS: Final = "metrics.jsonl"


def is_record(path: Path) -> bool:
    """Whether `write_record` made it."""
    return RunDirectory(path).exists and kept_mark(path).get("kept_by") == _BY


def kept_roles(path: Path) -> dict[str, int]:
    """How many images of each role a record's split had; nothing of other folders."""
    roles = kept_mark(path).get("roles")
    counts = {role: finite(count) for role, count in roles.items()} if isinstance(roles, Mapping) else {}
    return {role: int(count) for role, count in counts.items() if count is not None}


def strangers(path: Path) -> list[str]:
    """Names of files in a record that are none of it."""
    own = {*_WHOLE, _METRICS, KEPT}
    found = (
        each.relative_to(path) for each in sorted(path.rglob("*")) if each.is_symlink() or not each.is_dir()
    )
    return [
        str(file)
        for file in found
        if str(file) not in own and not (str(file.parent) == "evaluations" and file.suffix == ".json")
    ]


def results_of(path: Path) -> set[str]:
    """Names of the files with results in a run or a record of it."""
    return {file.name for file in RunDirectory(path).evaluations.glob("*.json") if file.is_file()}


def same_run(one: Run, other: Run) -> bool:
    """Whether both are states of one run: asked for the same, with the same first line of metrics, if both
    have any; its speed is like that of no other run.
    """
    first = [json.dumps(run.metrics[0]) for run in (one, other) if run.metrics]
    asked = [{name: portable(value) for name, value in decisive(run).items()} for run in (one, other)]
    return one.seed == other.seed and asked[0] == asked[1] and len({*first}) <= 1


def write_record(run: Run, folder: Path) -> None:
    """Into an empty folder; of a record the same files again."""
    again = is_record(run.path)
    for name in (*_WHOLE, *((_METRICS, KEPT) if again else ())):
        if (file := run.path / name).is_file():
            _write(folder / name, portable_file(name, _text(file)))
    for name in sorted(results_of(run.path)):
        copied = folder / "evaluations" / name
        copied.parent.mkdir(exist_ok=True)
        _write(copied, portable_file(name, lighter(_text(RunDirectory(run.path).evaluations / name))))
    if not again:
        _thin(run, folder)


def _thin(run: Run, folder: Path) -> None:
    rows = thinned(run.metrics)
    if (file := run.path / _METRICS).is_file():
        _write(folder / _METRICS, kept_lines(_text(file), rows))
    lines = {"kept": len(rows), "of": len(run.metrics)}
    seconds = training_seconds(run)
    mark = {
        "kept_by": _BY,
        "lines_of_metrics": lines,
        **({} if seconds is None else {"training_seconds": round(seconds, 1)}),
        "roles": dict(run.roles),
    }
    _write(folder / KEPT, json.dumps(mark, indent=1) + "\n")


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="surrogateescape")


def _write(file: Path, text: str) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))
