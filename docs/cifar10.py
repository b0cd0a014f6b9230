"""All runs behind docs/results/cifar10.md, and the page: `.venv/bin/python docs/cifar10.py cifar10.npz`.

Hours of a GPU; so it can be stopped at any time and goes on, with several runs at a time (`--jobs`), and
leaves a lent GPU in time (`--minutes`), with nothing half done where its disk goes, too (`--whole`). After
each run the page is written anew, and small copies of what it was made from are kept beside it, in
docs/results/cifar10: what has its copy there is not repeated, on no machine. `--list` prints the commands
and `--left` what is still to be made; both run nothing.
"""

import argparse
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from cifar10_pace import Command, Pace
from cifar10_runs import Evaluation, Run, runs

from semppl.parse import parse

RESULTS = Path(__file__).parent / "results"
PAGE, PUBLISHED, KEPT = RESULTS / "cifar10.md", RESULTS / "cifar10-published.csv", RESULTS / "cifar10"


def found(run: Run, folder: Path) -> set[str]:
    """Its results in a run directory or a copy; none where another run has taken its name."""
    path = folder / run.name
    files = {file for file in run.files if (path / "evaluations" / file).is_file()}
    return files if files and (path / "config.yaml").is_file() and as_asked(run, path) else set()


def as_asked(run: Run, path: Path) -> bool:
    """Whether every value that the run's flags and preset state is in its config.yaml."""
    asked = asdict(parse(["pretrain", "cifar10.npz", *run.train.split()]).config)  # type: ignore[attr-defined]
    return _within(asked | {"source": None}, yaml.safe_load((path / "config.yaml").read_text()))


def _within(asked: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    return all(
        _within(value, made[name]) if isinstance(value, Mapping) else value in (None, made[name])
        for name, value in asked.items()
    )


def missing(run: Run, out: Path) -> list[Evaluation]:
    """What is left to measure: nothing where the copy beside the page is complete, wherever it came from; of
    others what the run directory lacks, for a copy has no weights.
    """
    if found(run, KEPT) == run.files:
        return []
    done = found(run, out)
    left = [
        replace(each, protocols=tuple(name for name, file in each.files().items() if file not in done))
        for each in run.evaluations
    ]
    return [each for each in left if each.protocols]


def commands(run: Run, data: str, out: Path) -> list[Command]:
    """What is still to be done, in order."""
    path = out / run.name
    todo = missing(run, out)
    if not todo:
        return []
    goes_on = (path / "config.yaml").is_file()
    train = [*(["--resume"] if goes_on else [data, *run.train.split()]), "--out", str(path)]
    return [
        Command(["pretrain", *train], "" if goes_on else run.kind, run.epochs),
        *(Command(["evaluate", str(path), *each.words()], each.kind, each.epochs) for each in todo),
    ]


class Workshop:
    """Runs some at a time, until it is told to stop."""

    def __init__(self, data: str, out: Path, end: float = math.inf, *, whole: bool = False) -> None:
        """`end` is when it stops by itself, by the clock that counts seconds; `whole`: nothing begins that
        is not likely to be finished then.
        """
        self.failed, self.stopped = list[str](), False
        self._data, self._out, self._end, self._whole = data, out, end, whole
        self._pace = Pace()
        self._lock, self._page = threading.Lock(), threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()

    def stop(self) -> None:
        """Start nothing more; what runs writes its checkpoint, as after Ctrl-C, and ends at once if it hears
        it again.
        """
        with self._lock:
            self.stopped = True
            for child in self._children:
                child.send_signal(signal.SIGINT)

    def look(self) -> None:
        """Stop when it is time to."""
        if time.monotonic() >= self._end and not self.stopped:
            self.stop()

    def work(self, run: Run) -> None:
        """Its commands one after the other. A training that fails ends it, an evaluation does not."""
        try:
            todo = commands(run, self._data, self._out)
            if not todo:
                return
            left = self._end - time.monotonic()
            needed = sum(map(self._pace.expected, todo))
            if self._whole and needed > left > 0:
                print(f"{run.name}: needs about {needed:.0f} s of {left:.0f}, for another time", flush=True)
                return
            for command in todo:
                status = self._call(run, command)
                if status is None or (status and command.arguments[0] == "pretrain"):
                    return
            self.write_page()
        except OSError as error:
            self._fail(f"{run.name}: {error}")

    def _call(self, run: Run, command: Command) -> int | None:
        """The status; None where we were told to stop. All that is said goes to a log."""
        began, file, arguments = time.monotonic(), self._out / f"{run.name}.log", command.arguments
        self.look()
        if self.stopped:
            return None
        with file.open("a") as log:
            log.write(f"$ semppl {shlex.join(arguments)}\n")
            log.flush()
            with self._lock:
                if self.stopped:
                    return None
                # out of our group, so that Ctrl-C reaches it through us alone
                child = subprocess.Popen(
                    _semppl_of(arguments), stdout=log, stderr=log, start_new_session=True
                )
                self._children.add(child)
            status = child.wait()
        with self._lock:
            self._children.discard(child)
        if self.stopped and status:
            return None
        seconds = time.monotonic() - began
        print(f"{run.name}: {arguments[0]}, status {status}, {seconds:.0f} s", flush=True)
        if not status:
            self._pace.note_(command, seconds)
        else:
            self._fail(f"{run.name}: semppl {shlex.join(arguments)} failed, see {file}")
        return status

    def write_page(self) -> None:
        """From runs and copies, whichever has more results; once more from the copies alone, which readers
        have.
        """
        with self._page:
            for names in (first_report(self._out), second_report()):
                if names and subprocess.call(_semppl_of(names), stdout=subprocess.DEVNULL):
                    self._fail(f"no page: semppl {shlex.join(names)} failed")
                    return

    def _fail(self, line: str) -> None:
        self.failed.append(line)
        print(line, flush=True)


def _semppl_of(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "semppl", *arguments]


def first_report(out: Path) -> list[str]:
    """Keeps what is new. A copy of an earlier training that was measured less makes room."""
    places = []
    for run in runs():
        fresh, kept = found(run, out), found(run, KEPT)
        if len(fresh) > len(kept):
            places.append(out / run.name)
            shutil.rmtree(KEPT / run.name, ignore_errors=True)
        elif kept:
            places.append(KEPT / run.name)
    return [*_report(places), "--keep", os.path.relpath(KEPT)] if places else []


def second_report() -> list[str]:
    """The page as it stays."""
    places = [KEPT / run.name for run in runs() if found(run, KEPT)]
    return _report(places) if places else []


def _report(places: Sequence[Path]) -> list[str]:
    page, beside = map(os.path.relpath, (PAGE, PUBLISHED))
    return ["report", *map(os.path.relpath, places), "--table", page, "--beside", beside]


def chosen_from(plan: Sequence[Run], names: Sequence[str]) -> list[Run]:
    """Those with such names, in the order of the names; those of one name in the order of the plan."""
    found = {run.name: run for name in names for run in plan if fnmatchcase(run.name, name)}
    return list(found.values())


def print_commands(chosen: Sequence[Run], data: str, out: Path) -> None:
    """For reading, and for whoever would rather run them one by one."""
    for run in chosen:
        print(f"semppl pretrain {data} {run.train} --out {out / run.name}")
        for each in run.evaluations:
            print(f"semppl evaluate {out / run.name} {shlex.join(each.words())}")


def print_left(chosen: Sequence[Run], out: Path) -> None:
    """What would be made: a copy counts where it is complete, for it has no weights."""
    left = {run.name: todo for run in chosen if (todo := missing(run, out))}
    for name, todo in left.items():
        files = sorted(file for each in todo for file in each.files().values())
        print(f"{name}: {', '.join(file.removesuffix('.json') for file in files)}")
    print(f"{len(chosen) - len(left)} of {len(chosen)} runs are complete")


def work_through(chosen: Sequence[Run], flags: argparse.Namespace) -> list[str]:
    """Some at a time, in their order; gives what failed."""
    flags.out.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(flags.data, flags.out, time.monotonic() + 60 * flags.minutes, whole=flags.whole)
    with ThreadPoolExecutor(flags.jobs) as pool:
        jobs = [pool.submit(workshop.work, run) for run in chosen]
        busy = True
        while busy:
            try:
                busy = bool(wait(jobs, timeout=0.5).not_done)
                workshop.look()
            except KeyboardInterrupt:
                workshop.stop()
                print("stopping: the same command goes on", flush=True)
    for job in jobs:
        job.result()
    workshop.write_page()
    return workshop.failed


def main(words: Sequence[str] | None = None) -> None:
    """Train, measure, and write the page."""
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("data", help="CIFAR-10 as an npz file: see docs/reproduce.md")
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10"), help="for the run directories")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument(
        "--only", nargs="+", default=["*"], help="names of runs, in this order; * for any letters"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="begin no run that is not likely to be finished by then, once one of its kind was timed",
    )
    parser.add_argument("--list", action="store_true", help="print all commands, and run nothing")
    parser.add_argument("--left", action="store_true", help="print what is still to be made, and run nothing")
    flags = parser.parse_args(words)
    chosen = chosen_from(list(runs()), flags.only)
    if flags.jobs < 1 or not flags.minutes >= 0:
        parser.error("--jobs must be at least 1, and --minutes at least 0")
    if flags.whole and math.isinf(flags.minutes):
        parser.error("--whole needs --minutes")
    if not chosen:
        parser.error(f"--only {shlex.join(flags.only)}: no run has such a name, see --list")
    if flags.list:
        print_commands(chosen, flags.data, flags.out)
        return
    if flags.left:
        print_left(chosen, flags.out)
        return
    if not Path(flags.data).is_file():
        parser.error(f"{flags.data}: no such file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if work_through(chosen, flags):
        sys.exit(1)


if __name__ == "__main__":
    main()
