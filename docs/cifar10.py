"""All runs behind docs/results/cifar10.md, and the page: `python docs/cifar10.py cifar10.npz`.

Hours of a GPU; so it can be stopped and goes on, several runs at a time (`--jobs`), and a lent GPU is left in
time (`--minutes`). What is finished is not repeated: neither what lies in `runs/cifar10`, nor what is kept
beside the page, in docs/results/cifar10. `--list` prints the commands and runs nothing.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PAGE, PUBLISHED, KEPT = RESULTS / "cifar10.md", RESULTS / "cifar10-published.csv", RESULTS / "cifar10"
# labels → labels for each class, preset
LABELS = {
    4000: (400, "cifar10-4000"),
    500: (50, "cifar10-250"),
    250: (25, "cifar10-250"),
    40: (4, "cifar10-40"),
}
SEEDS = (0, 1, 2)
FROZEN = "--protocol knn linear"
SUPERVISED = "--protocol supervised"
CONSISTENT = "--protocol finetune --consistency --epochs 150"
# that of the published rows
PUBLISHED_NETWORK = "--encoder wrn28-2"
# half as long: rows that take the method apart. The target follows as it would by itself in so many steps
SHORT = "--epochs 100 --method.target-decay 0.992 --speed compile"
BASES = {
    "simclr": "--method.objective simclr --method.negatives None",
    "byol": "--method.objective byol --method.negatives None",
}
PARTS = {"given": "--method.labels given", "oracle": "--method.labels oracle"}
# beyond the paper, each with a row of its own; measured where labels are few
BEYOND = {
    "all-votes": "--method.minimum-votes 0",
    "weighted-votes": "--method.minimum-votes 0 --method.vote-power 4",
    "five-positives": "--method.positives 5",
    "balanced": "--data.balance-labels True",
}
AVERAGED = "--protocol knn linear --network target --name target"
TUNED = ("--protocol finetune", "--protocol finetune --confident 0.95 --epochs 10 --name confident")


@dataclass(frozen=True)
class Run:
    """One run directory, and what is measured of it."""

    name: str
    train: str
    """Flags of pretrain."""
    evaluations: tuple[str, ...]
    """Flags of evaluate, one text for each call."""


def runs() -> Iterator[Run]:
    """The main rows first, seed by seed, and the network of others; then what takes the method apart."""
    for seed in SEEDS:
        for labels in (4000, 250, 40, 500):
            yield _semppl(labels, seed, "", "", (FROZEN, f"{CONSISTENT} --name consistency", SUPERVISED))
        yield _without_labels("relicv2", seed, "", (FROZEN, CONSISTENT) if seed == 0 else (FROZEN,))
    for labels in (4000, 250, 40):
        yield _semppl(labels, 0, "-wrn", PUBLISHED_NETWORK, (FROZEN, f"{CONSISTENT} --name consistency"))
    yield _without_labels("relicv2-short", 0, SHORT, (FROZEN,))
    for base, flags in BASES.items():
        yield _without_labels(f"{base}-short", 0, f"{SHORT} {flags}", (FROZEN,))
    for labels in LABELS:
        yield _semppl(labels, 0, "-short", SHORT, (FROZEN, AVERAGED, *TUNED))
        for name, flags in (BASES | PARTS).items():
            yield _semppl(labels, 0, f"-{name}-short", f"{SHORT} {flags}", (FROZEN,))
    for name, flags in BEYOND.items():
        yield _semppl(250, 0, f"-{name}-short", f"{SHORT} {flags}", (FROZEN,))


def _semppl(labels: int, seed: int, suffix: str, flags: str, evaluations: tuple[str, ...]) -> Run:
    per_class, preset = LABELS[labels]
    train = f"--preset {preset} --labels-per-class {per_class} --seed {seed} {flags}"
    return Run(f"semppl-{labels}{suffix}-seed{seed}", train.strip(), evaluations)


def _without_labels(name: str, seed: int, flags: str, evaluations: tuple[str, ...]) -> Run:
    """It sees no label, so that one run serves all numbers of them."""
    train = f"--preset cifar10-4000 --seed {seed} --method.positives 0 {flags}"
    measured = [
        f"{flags} --labels-per-class {per_class} --name {'consistency-' * (flags == CONSISTENT)}{labels}"
        for labels, (per_class, _) in LABELS.items()
        for flags in evaluations
    ]
    return Run(f"{name}-seed{seed}", train.strip(), tuple(measured))


def results(evaluation: str) -> list[str]:
    """The files that a call of evaluate leaves."""
    words = evaluation.split()
    name = f"-{words[words.index('--name') + 1]}" if "--name" in words else ""
    start = words.index("--protocol") + 1
    end = next((i for i in range(start, len(words)) if words[i].startswith("--")), len(words))
    return [f"{protocol}{name}.json" for protocol in words[start:end]]


def missing(run: Run, out: Path) -> list[str]:
    """Evaluations to be made: those that the run directory lacks; all of a run that is not there, unless its
    copy beside the page has all of them, for a copy has no weights.
    """
    there = (out / run.name / "config.yaml").is_file()
    folder = (out if there else KEPT) / run.name / "evaluations"
    lacks = [each for each in run.evaluations if not all((folder / file).is_file() for file in results(each))]
    return lacks if there or not lacks else list(run.evaluations)


def commands(run: Run, data: str, out: Path) -> Iterator[list[str]]:
    """What is still to be done, as arguments of semppl; looked up only when its turn comes."""
    path = out / run.name
    if todo := missing(run, out):
        goes_on = (path / "config.yaml").is_file()
        train = ["--resume"] if goes_on else [data, *run.train.split()]
        yield ["pretrain", *train, "--out", str(path)]
    for each in todo:
        yield ["evaluate", str(path), *each.split()]


def work(run: Run, data: str, out: Path, may_start: Callable[[], bool]) -> None:
    """Its commands one after the other, with all they say in a log."""
    for arguments in commands(run, data, out):
        if not may_start():
            return
        began = time.monotonic()
        with (out / f"{run.name}.log").open("a") as log:
            log.write(f"$ semppl {shlex.join(arguments)}\n")
            log.flush()
            status = subprocess.call([sys.executable, "-m", "semppl", *arguments], stdout=log, stderr=log)
        print(f"{run.name}: {arguments[0]}, status {status}, {time.monotonic() - began:.0f} s", flush=True)
        if status:
            print(f"{run.name}: see {log.name}", flush=True)
            return


def evaluated(out: Path) -> list[Path]:
    """Runs of which something was measured, or their copies where the run is not there."""
    places = [[folder / run.name for folder in (out, KEPT)] for run in runs()]
    found = (next((each for each in place if (each / "evaluations").is_dir()), None) for place in places)
    return [place for place in found if place]


def report(found: Sequence[Path]) -> list[str]:
    """The command that makes the page and keeps small copies of the runs beside it."""
    page, beside, kept = map(os.path.relpath, (PAGE, PUBLISHED, KEPT))
    return ["report", *map(os.path.relpath, found), "--table", page, "--beside", beside, "--keep", kept]


def work_through(chosen: Sequence[Run], flags: argparse.Namespace) -> None:
    """Some at a time, in their order."""
    flags.out.mkdir(parents=True, exist_ok=True)
    end, stopped = time.monotonic() + 60 * flags.minutes, threading.Event()

    def may_start() -> bool:
        return time.monotonic() < end and not stopped.is_set()

    with ThreadPoolExecutor(flags.jobs) as pool:
        jobs = [pool.submit(work, run, flags.data, flags.out, may_start) for run in chosen]
        try:
            for job in jobs:
                job.result()
        except (
            KeyboardInterrupt
        ):  # it reached the runs, too: they write their checkpoints, or end at a second one
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stopped.set()
            print("stopping: the same command goes on", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Train, measure, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="CIFAR-10 as an npz file: see docs/reproduce.md")
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10"), help="for the run directories")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--only", nargs="*", default=["*"], help="names of runs, * for any letters")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after so many")
    parser.add_argument("--list", action="store_true", help="print all commands, and run nothing")
    flags = parser.parse_args(words)
    if not flags.list and not Path(flags.data).is_file():
        parser.error(f"{flags.data}: no such file")
    chosen = [run for run in runs() if any(fnmatchcase(run.name, each) for each in flags.only)]
    if flags.list:
        for run in chosen:
            print(f"semppl pretrain {flags.data} {run.train} --out {flags.out / run.name}")
            for each in run.evaluations:
                print(f"semppl evaluate {flags.out / run.name} {each}")
        return
    work_through(chosen, flags)
    if found := evaluated(flags.out):
        subprocess.call([sys.executable, "-m", "semppl", *report(found)])


if __name__ == "__main__":
    main()
