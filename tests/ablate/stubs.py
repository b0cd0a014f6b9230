"""Cells that are quick, and what stands for their work. No torch, so that their processes start at once."""

import json
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path

from tests.blocks import six_blocks

from semppl.ablate.cell import PROTOCOLS, Cell, evaluation_flags
from semppl.config import Config
from semppl.core.errors import UserError
from semppl.train.interrupt import Interrupted, Stopper

NUM_IMAGES = 64
DEAF = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""Whether Ctrl-C waits while this is imported."""


def make_cell(folder: Path, name: str) -> Cell:
    config = Config(source="digits", epochs=2.0, batch_size=16)
    return Cell(name, config, folder / name, NUM_IMAGES)


def metrics_row(step, right=3, known=4, rate=32.0):
    pseudo = {"pseudo/right_by_votes": [0, right], "pseudo/known_by_votes": [0, known]}
    return {"step": step, "images_per_second": rate} | pseudo


def finish(cell: Cell, linear=50.0, knn=40.0, right=3) -> None:
    """What a cell leaves behind."""
    cell.run.evaluations.mkdir(parents=True, exist_ok=True)
    cell.run.metrics.write_text(json.dumps(metrics_row(cell.steps, right)) + "\n")
    for protocol, value in zip(PROTOCOLS, (knn, linear), strict=True):
        content = {
            "protocol": f"{protocol}: of a stub",
            "numbers": [{"name": "top-1", "value": value}],
            "step": cell.steps,
            "seconds": 30.0,
            "flags": asdict(evaluation_flags(cell.config)),
        }
        (cell.run.evaluations / f"{protocol}.json").write_text(json.dumps(content))


def live(cell: Cell, slot: int, jobs: int) -> None:
    """As the name of the cell says."""
    cell.path.mkdir(parents=True, exist_ok=True)
    kind = cell.name.partition("-")[0]
    if kind == "wrong":
        raise UserError("this is wrong")
    if kind == "broken":
        raise ZeroDivisionError("by zero\nand more")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "long":
        _wait(cell)
    (cell.path / "done").write_text(f"{slot} {jobs} {os.getpgrp()}")
    if kind == "heavy":
        (cell.path / "blocks").write_text(" ".join(map(str, six_blocks())))


def _wait(cell: Cell) -> None:
    """Until a signal comes; then it takes a while to write what there is."""
    with Stopper() as stop:
        (cell.path / "started").write_text(str(DEAF))
        while stop.signum is None:
            time.sleep(0.01)
        time.sleep(0.3)
        (cell.path / "checkpoint").touch()
    raise Interrupted("stopped", stop.signum)
